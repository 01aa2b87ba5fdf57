//! The table of settings.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::admission_plugins::AdmissionPlugins;
use super::apiserver_flags::GivenFlags;
use super::authentication::{AnonymousAuth, SIGNING_ALGORITHM, Texts, USERNAME_CLAIM};
use super::authorization_modes::AuthorizationModes;
use super::connections::ConnectionLimit;
use super::controllers::Controllers;
use super::description::{Description, Form, with_dashes};
use super::feature_gates::FeatureGates;
use super::http_settings::Chance;
use super::issuers::Issuers;
use super::node_addresses::NodeAddressTypes;
use super::runtime_config::RuntimeConfig;
use super::storage::{
    ServersOverrides, StorageMediaType, StorageVersions, Switch, UnusedSize, WatchCacheSizes,
};
use super::tls_settings::{CipherSuites, CurvePreferences, SniCertificates, TlsVersion};
use super::values::{
    AccessLogMode, AddressRanges, AdvertiseAddress, BindAddress, ByteSize, EndpointReconciler,
    FilePath, LogFilter, LogFormat, MetricsAddress, Names, Period, Port, PortRange, StorageBackend,
    WholeSeconds,
};

/// One setting, its value as text and its explanation: an entry of `taffrail config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name in the file; the flag is the same after two dashes.
    pub name: String,
    /// The value in its one text form.
    pub value: String,
    /// The explanation.
    pub explanation: String,
}

impl Entry {
    pub(super) fn to_yaml(&self) -> String {
        let comment: String = self
            .explanation
            .lines()
            .map(|line| format!("#{line}\n"))
            .collect();
        let plain = self.value.bytes().all(|b| b.is_ascii_alphanumeric());
        if plain && !self.value.is_empty() {
            format!("{comment}{}: {}\n", self.name, self.value)
        } else {
            // JSON's strings are YAML's.
            let quoted = serde_json::Value::from(self.value.as_str());
            format!("{comment}{}: {quoted}\n", self.name)
        }
    }
}

/// The form of a flag: `Form::Value`, unless the table says another one.
macro_rules! form {
    () => {
        Form::Value
    };
    (switch) => {
        Form::Switch
    };
    (negative) => {
        Form::Negative
    };
    (hyphens) => {
        Form::Hyphens
    };
}

/// The name of a setting: its own, or that of its field with dashes.
macro_rules! setting_name {
    ($field:ident) => {{
        const NAME: [u8; stringify!($field).len()] = with_dashes(stringify!($field).as_bytes());
        const TEXT: &str = match std::str::from_utf8(&NAME) {
            Ok(name) => name,
            Err(_) => unreachable!(),
        };
        TEXT
    }};
    ($field:ident $name:literal) => {
        $name
    };
}

macro_rules! settings {
    ($( $heading:literal { $( $(#[doc = $doc:literal])+ $name:ident$([$long:literal])?: $type:ty [$value_name:literal] $({$form:ident})? = $default:expr; )+ } )+) => {
        /// The settings from flags or a file; the rest is `None`.
        #[derive(Clone, Debug, Default)]
        pub struct Settings {
            $($( $(#[doc = $doc])+ pub $name: Option<$type>, )+)+
            /// The flags of kube-apiserver that are not settings.
            pub apiserver_flags: GivenFlags,
        }

        /// The effective configuration.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($( $(#[doc = $doc])+ pub $name: $type, )+)+
            /// The flags of kube-apiserver that are not settings.
            pub apiserver_flags: GivenFlags,
        }

        /// All settings, in the order of the table.
        static DESCRIPTIONS: &[Description] = &[ $($( Description {
            field: stringify!($name),
            name: setting_name!($name$( $long)?),
            value_name: $value_name,
            heading: $heading,
            lines: &[$($doc),+],
            form: form!($($form)?),
            parser: || clap::value_parser!($type).into(),
        }, )+)+ ];

        impl Settings {
            /// These settings where they are set, else those of `lower`.
            pub fn over(self, lower: Settings) -> Settings {
                Settings {
                    $($( $name: self.$name.or(lower.$name), )+)+
                    apiserver_flags: self.apiserver_flags.over(lower.apiserver_flags),
                }
            }

            /// Fills in the defaults.
            pub(super) fn resolve(self) -> Config {
                Config {
                    $($( $name: self.$name.unwrap_or_else(|| $default), )+)+
                    apiserver_flags: self.apiserver_flags,
                }
            }
        }

        impl FromArgMatches for Settings {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Settings, clap::Error> {
                Ok(Settings {
                    $($( $name: matches.get_one(stringify!($name)).cloned(), )+)+
                    apiserver_flags: GivenFlags::default(),
                })
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                let lower = std::mem::take(self);
                *self = Settings::from_arg_matches(matches)?.over(lower);
                Ok(())
            }
        }

        impl Config {
            /// Every setting with its value, in the order of the table.
            pub fn entries(&self) -> Vec<Entry> {
                let values: &[&dyn Display] = &[ $($( &self.$name, )+)+ ];
                let entry = |(of, value): (&Description, &&dyn Display)| Entry {
                    name: of.name.to_owned(),
                    value: value.to_string(),
                    explanation: of.lines.join("\n"),
                };
                DESCRIPTIONS.iter().zip(values).map(entry).collect()
            }
        }
    };
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        Description::add_all(DESCRIPTIONS, command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Settings::augment_args(command)
    }
}

settings! {
    "Addresses and data" {
        /// Directory of the data, the certificates and the admin kubeconfig. Made with mode 0700;
        /// refused when it belongs to another user than the daemon's.
        /// [default: ./taffrail-data]
        data_dir: FilePath ["DIR"] = FilePath::from("./taffrail-data");

        /// Refuse to start if data-dir holds no store, instead of creating an empty one. Protects
        /// against a volume that is not mounted. Without effect if etcd keeps all objects.
        /// [default: false]
        require_existing_data: Switch ["BOOL"] {switch} = Switch(false);

        /// Start a store of data-dir that lacks its newest revisions, from this one on. A start
        /// that finds them missing is refused and names the revision; their contents are lost.
        /// Without effect on a complete store. 0 accepts no loss.
        /// [default: 0]
        accept_loss: u64 ["REVISION"] = 0;

        /// Address that HTTPS listens on. Only clients on this machine reach a loopback address.
        /// [default: 127.0.0.1]
        bind_address: BindAddress ["ADDRESS"] = BindAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));

        /// Port of HTTPS; 0 takes a free one and prints it.
        /// [default: 6443]
        secure_port: Port ["PORT"] = Port(6443);

        /// Whether other processes may listen on the same address and port (SO_REUSEPORT). The
        /// kernel then spreads connections over them.
        /// [default: false]
        permit_port_sharing: Switch ["BOOL"] {switch} = Switch(false);

        /// Address and port of plain HTTP that serves /metrics and nothing else; 0 or an empty
        /// value switches it off. The secure port serves /metrics to the admin, too.
        /// [default: 127.0.0.1:9464]
        metrics_bind_address: MetricsAddress ["ADDRESS:PORT"] =
            MetricsAddress(Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464))));
    }

    "Certificates and users" {
        /// Certificate chain (PEM) to serve instead of the generated one. Read again when it
        /// changes, with its key; connections stay open.
        /// [default: none]
        tls_cert_file: FilePath ["FILE"] = FilePath::unset();

        /// Private key (PEM) of tls-cert-file.
        /// [default: none]
        tls_private_key_file: FilePath ["FILE"] = FilePath::unset();

        /// Directory with the certificate and key to serve, apiserver.crt and apiserver.key, unless
        /// tls-cert-file is set. If it has neither, the daemon makes them there. Unset, they are in
        /// data-dir.
        /// [default: none]
        cert_dir: FilePath ["DIR"] = FilePath::unset();

        /// Certificates for clients that ask for certain host names: certificate and key (PEM) as
        /// cert,key, or with names as cert,key:name,*.name; separated by semicolons or given
        /// several times. Without names, those of the certificate count. Whole names win over those
        /// with *.
        /// [default: none]
        tls_sni_cert_key: SniCertificates ["CERT,KEY"] = SniCertificates::default();

        /// Cipher suites that are used, by their names, separated by commas. Suites of TLS 1.3 are
        /// restricted only if the list has some of them. Unset, all secure ones are used.
        /// [default: none]
        tls_cipher_suites: CipherSuites ["NAMES"] = CipherSuites::default();

        /// The least version of TLS: VersionTLS12 or VersionTLS13. VersionTLS10 and VersionTLS11
        /// mean 1.2, too.
        /// [default: none]
        tls_min_version: TlsVersion ["VERSION"] = TlsVersion::Unset;

        /// Groups for key exchanges, by the numbers of TLS, separated by commas: 23 (P-256), 24
        /// (P-384), 29 (X25519), 4587 (SecP256r1MLKEM768), 4588 (X25519MLKEM768). Unset, all but
        /// 4587 are used.
        /// [default: none]
        tls_curve_preferences: CurvePreferences ["NUMBERS"] = CurvePreferences::default();

        /// Further host names and addresses of the certificate made on the first start, separated
        /// by commas. It has bind-address (all addresses of the machine if that is 0.0.0.0 or ::),
        /// advertise-address, the first address of service-cluster-ip-range, the host name,
        /// localhost and kubernetes.default.svc anyway. The certificate is made again when they
        /// change; its CA is kept.
        /// [default: none]
        tls_san: Names ["NAMES"] = Names::default();

        /// Authorities (PEM) that sign the certificates of clients, besides the daemon's own. The
        /// common name of a certificate is the user, its organizations are the groups. The file is
        /// refused if others than its owner, the daemon's user and root can write it.
        /// [default: none]
        client_ca_file: FilePath ["FILE"] = FilePath::unset();

        /// File of users and their tokens, a line each: token,user,uid,"group1,group2". Members of
        /// system:masters may do everything. Daemons that share the file know the same users. It is
        /// read again when it changes or on SIGHUP, and so is the admin's token in data-dir:
        /// watches of users who lost their token or their permissions end then. Replace the file by
        /// rename. A file without users does not replace one that had some. A file is refused if it
        /// belongs to others than the daemon's user and root, if others than its owner can write
        /// it, or if its quotes don't match.
        /// [default: none]
        token_auth_file: FilePath ["FILE"] = FilePath::unset();
    }

    "Kubelets" {
        /// Certificate (PEM) by which the daemon proves to kubelets who it is, when it asks them
        /// for logs, commands and ports of pods. It and the files of the next two settings are read
        /// again when they change.
        /// [default: none]
        kubelet_client_certificate: FilePath ["FILE"] = FilePath::unset();

        /// Private key (PEM) of kubelet-client-certificate.
        /// [default: none]
        kubelet_client_key: FilePath ["FILE"] = FilePath::unset();

        /// Authorities (PEM) that sign the certificates of kubelets. Unset, the certificates are
        /// not checked, as in kube-apiserver.
        /// [default: none]
        kubelet_certificate_authority: FilePath ["FILE"] = FilePath::unset();

        /// Types of the addresses of nodes at which kubelets are reached, the preferred ones first,
        /// separated by commas.
        /// [default: Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP]
        kubelet_preferred_address_types: NodeAddressTypes ["TYPES"] = NodeAddressTypes::default();

        /// How long a connection to a kubelet may take to open.
        /// [default: 5s]
        kubelet_timeout: Period ["DURATION"] = Period(Duration::from_secs(5));
    }

    "Authorization" {
        /// Authorizers, in the order in which they are asked, separated by commas: Node for what
        /// kubelets need, RBAC for roles and bindings, Webhook, ABAC for policies of a file,
        /// AlwaysAllow, and AlwaysDeny. A request is carried out if one of them allows it before
        /// another denies it. Members of system:masters, such as the generated admin, may do
        /// everything in any case. Kubernetes' own default is AlwaysAllow.
        /// [default: Node,RBAC]
        authorization_mode: AuthorizationModes ["MODES"] = AuthorizationModes::default();

        /// File of authorizers, in the format of Kubernetes' AuthorizationConfiguration, instead of
        /// authorization-mode and authorization-webhook-config-file. It knows several webhooks with
        /// conditions, and is read again when it changes; one with errors changes nothing. Refused
        /// if others than its owner, the daemon's user and root can write it.
        /// [default: none]
        authorization_config: FilePath ["FILE"] = FilePath::unset();

        /// File of the policies of the authorizer ABAC, a JSON object on each line. Read once, at
        /// the start. Refused if others than its owner, the daemon's user and root can write it.
        /// [default: none]
        authorization_policy_file: FilePath ["FILE"] = FilePath::unset();

        /// Kubeconfig of the authorizer Webhook. Its current context names the server and the
        /// credentials of this daemon.
        /// [default: none]
        authorization_webhook_config_file: FilePath ["FILE"] = FilePath::unset();

        /// Version of the SubjectAccessReviews that the webhook gets and answers: v1beta1 or v1.
        /// [default: v1beta1]
        authorization_webhook_version: String ["VERSION"] = "v1beta1".to_owned();

        /// How long it is kept that the webhook has allowed a request; 0 for not at all.
        /// [default: 5m]
        authorization_webhook_cache_authorized_ttl: Period ["DURATION"] =
            Period(Duration::from_secs(300));

        /// How long other answers of the webhook are kept; 0 for not at all.
        /// [default: 30s]
        authorization_webhook_cache_unauthorized_ttl: Period ["DURATION"] =
            Period(Duration::from_secs(30));

        /// Whether the daemon makes Kubernetes' roles and bindings at its start, and adds what they
        /// lack. Switch it off where a kube-apiserver does that on the same store.
        /// [default: true]
        rbac_bootstrap: Switch ["BOOL"] {switch} = Switch(true);
    }

    "Service accounts" {
        /// Issuers of service account tokens, separated by commas or given several times. The first
        /// one signs new tokens, all are accepted. auto is the URL (https) of
        /// kubernetes.default.svc.cluster.local, but no issuer if etcd keeps the objects: daemons
        /// there must share a key, so an issuer and service-account-signing-key-file must be set.
        /// With auto the namespace default gets the account default, too. With an empty value no
        /// tokens are issued, and serviceaccounts/token is not served.
        /// [default: auto]
        service_account_issuer: Issuers ["ISSUERS"] = Issuers::Automatic;

        /// Files (PEM) with keys that verify service account tokens: public keys, certificates or
        /// private keys, of RSA from 2048 bits on or of the curves P-256, P-384 and P-521;
        /// separated by commas or given several times. They are read again when they change.
        /// Refused if others than their owner, the daemon's user and root can write them.
        /// [default: none]
        service_account_key_file: Names ["FILES"] = Names::default();

        /// File (PEM) with the private key that signs service account tokens, in PKCS #1, PKCS #8
        /// or SEC1. Without one the daemon generates a key in data-dir. Daemons that share an etcd
        /// must be given the same file.
        /// [default: none]
        service_account_signing_key_file: FilePath ["FILE"] = FilePath::unset();

        /// The longest validity of a new token. Requests for more get this, and a warning. From 1h
        /// to 2^32 seconds; 0 means no limit.
        /// [default: 0s]
        service_account_max_token_expiration: Period ["DURATION"] = Period(Duration::ZERO);

        /// Whether tokens that kubelets put into volumes of pods are valid for a year. The audit
        /// log then marks requests with tokens that should have been renewed after an hour.
        /// [default: true]
        service_account_extend_token_expiration: Switch ["BOOL"] {switch} = Switch(true);

        /// Audiences of this API, separated by commas. Service account tokens must have one of
        /// them. Unset, they are the issuers.
        /// [default: none]
        api_audiences: Names ["NAMES"] = Names::default();

        /// URL where clients find the keys of the issuer; it begins with https. Unset, it is
        /// /openid/v1/jwks at this daemon's address.
        /// [default: none]
        service_account_jwks_uri: String ["URL"] = String::new();

        /// Host name of this daemon in the URL of the keys of the issuer, instead of its address.
        /// [default: none]
        external_hostname: String ["HOST"] = String::new();

        /// Whether a token that is stored in a Secret is valid only while the Secret and the
        /// service account exist.
        /// [default: true]
        service_account_lookup: Switch ["BOOL"] {switch} = Switch(true);
    }

    "Authentication" {
        /// Whether requests without credentials are those of system:anonymous. If not, they get
        /// 401. auto is true.
        /// [default: auto]
        anonymous_auth: AnonymousAuth ["BOOL"] {switch} = AnonymousAuth(None);

        /// File of issuers of tokens, and of the paths that are served to anonymous requests, in
        /// the format of Kubernetes' AuthenticationConfiguration. It is read again when it
        /// changes; one with errors changes nothing. Refused if others than its owner, the
        /// daemon's user and root can write it.
        /// [default: none]
        authentication_config: FilePath ["FILE"] = FilePath::unset();

        /// Whether Secrets of the type bootstrap.kubernetes.io/token in kube-system are tokens, as
        /// kubeadm uses them.
        /// [default: false]
        enable_bootstrap_token_auth: Switch ["BOOL"] {switch} = Switch(false);

        /// Authorities (PEM) that sign the certificates of front proxies. A front proxy names the
        /// users of its requests in headers. The file is refused if others than its owner, the
        /// daemon's user and root can write it.
        /// [default: none]
        requestheader_client_ca_file: FilePath ["FILE"] = FilePath::unset();

        /// Common names of the certificates of front proxies, separated by commas. Unset, all of
        /// requestheader-client-ca-file are.
        /// [default: none]
        requestheader_allowed_names: Texts ["NAMES"] = Texts::default();

        /// Headers that have the name of the user, separated by commas. The first one with a value
        /// counts. X-Remote-User is common.
        /// [default: none]
        requestheader_username_headers: Texts ["HEADERS"] = Texts::default();

        /// Headers that have the uid of the user, separated by commas. X-Remote-Uid must be one.
        /// [default: none]
        requestheader_uid_headers: Texts ["HEADERS"] = Texts::default();

        /// Headers that have a group of the user, separated by commas. X-Remote-Group is common.
        /// [default: none]
        requestheader_group_headers: Texts ["HEADERS"] = Texts::default();

        /// Prefixes of headers that have further data of the user, separated by commas.
        /// X-Remote-Extra- is common.
        /// [default: none]
        requestheader_extra_headers_prefix: Texts ["PREFIXES"] = Texts::default();

        /// URL (https) of the issuer of OpenID Connect whose tokens are accepted. Its keys are read
        /// from there. authentication-config knows several issuers, and more options.
        /// [default: none]
        oidc_issuer_url: String ["URL"] = String::new();

        /// The audience that the tokens of oidc-issuer-url must have.
        /// [default: none]
        oidc_client_id: String ["ID"] = String::new();

        /// Authorities (PEM) that sign the certificate of oidc-issuer-url. Unset, they are those
        /// that the machine trusts.
        /// [default: none]
        oidc_ca_file: FilePath ["FILE"] = FilePath::unset();

        /// The claim that has the name of the user.
        /// [default: sub]
        oidc_username_claim: String ["CLAIM"] = USERNAME_CLAIM.to_owned();

        /// The prefix of names of users; - means none. Unset, it is the issuer and #, unless
        /// oidc-username-claim is email.
        /// [default: none]
        oidc_username_prefix: String ["PREFIX"] = String::new();

        /// The claim that has the groups of the user: a text or a list.
        /// [default: none]
        oidc_groups_claim: String ["CLAIM"] = String::new();

        /// The prefix of groups.
        /// [default: none]
        oidc_groups_prefix: String ["PREFIX"] = String::new();

        /// Algorithms of signatures that are accepted, separated by commas: RS, ES or PS, with 256,
        /// 384 or 512.
        /// [default: RS256]
        oidc_signing_algs: Names ["NAMES"] = Names(vec![SIGNING_ALGORITHM.to_owned()]);

        /// Claims that tokens must have, as claim=value, separated by commas.
        /// [default: none]
        oidc_required_claim: Names ["CLAIMS"] = Names::default();
    }

    "Webhook for tokens" {
        /// Kubeconfig of a webhook that is asked for the users of tokens which nothing else knows.
        /// Its current context names the server and the credentials of this daemon.
        /// [default: none]
        authentication_token_webhook_config_file: FilePath ["FILE"] = FilePath::unset();

        /// Version of the TokenReviews that the webhook gets and answers: v1beta1 or v1.
        /// [default: v1beta1]
        authentication_token_webhook_version: String ["VERSION"] = "v1beta1".to_owned();

        /// How long answers of the webhook are kept; 0 for not at all.
        /// [default: 2m]
        authentication_token_webhook_cache_ttl: Period ["DURATION"] =
            Period(Duration::from_secs(120));
    }

    "Storage" {
        /// Where objects are kept: embedded (in data-dir), etcd3 (at etcd-servers) or memory
        /// (nothing survives the process). Unset, it is etcd3 if etcd-servers is set, else
        /// embedded.
        /// [default: none]
        storage_backend: StorageBackend ["BACKEND"] = StorageBackend::Unset;

        /// Format in which objects are stored: application/json, application/yaml or
        /// application/vnd.kubernetes.protobuf, which kube-apiserver uses. All are read, whichever
        /// is set.
        /// [default: application/json]
        storage_media_type: StorageMediaType ["MEDIA TYPE"] = StorageMediaType::Json;

        /// Versions that objects are stored in, if not the first one served: group=version or
        /// group/resource=version, separated by commas; core is the core group. If two groups keep
        /// a resource in one place: group=othergroup/version.
        /// [default: none]
        storage_versions["storage.versions"]: StorageVersions ["VERSIONS"] =
            StorageVersions::default();

        /// How long a start waits for all caches. After that the daemon is ready without those that
        /// can't be filled: requests for their resources get 429 until they are.
        /// [default: 1m]
        storage_initialization_timeout: Period ["DURATION"] = Period(Duration::from_secs(60));

        /// Creates and updates are refused while the file system of data-dir has less free than
        /// this; they may be tried again. Deletes and compaction still work and make room.
        /// [default: 64MiB]
        disk_reserve_bytes: ByteSize ["SIZE"] = ByteSize(64 << 20);

        /// Skip syncs of the embedded store to the disk. The death of the process loses nothing,
        /// but after a power cut the store may lack writes, or be damaged. For tests.
        /// [default: false]
        unsafe_no_fsync: Switch ["BOOL"] {switch} = Switch(false);

        /// Bytes of the embedded store that are read and verified in a second while the daemon
        /// serves. /readyz/storage-integrity reports damage. A pass reads the file twice; 0 turns
        /// verification off.
        /// [default: 1MiB]
        verify_bytes_per_second: ByteSize ["SIZE"] = ByteSize(1 << 20);
    }

    "History and leases" {
        /// How long past revisions are kept, so that watches and lists can go back to them.
        /// retention-bytes may drop them earlier.
        /// [default: 1h]
        retention_age: Period ["DURATION"] = Period(Duration::from_secs(3600));

        /// How many bytes of past revisions are kept at most.
        /// [default: 1GiB]
        retention_bytes: ByteSize ["SIZE"] = ByteSize(1 << 30);

        /// How long events (the resource) are kept after they were created or last changed, in
        /// whole seconds; 0 keeps them until somebody deletes them.
        /// [default: 1h]
        event_ttl: WholeSeconds ["DURATION"] = WholeSeconds(Duration::from_secs(3600));

        /// Objects that expire share leases. So an object may live longer than its time, by at most
        /// this many seconds and at most a twentieth.
        /// [default: 60]
        lease_reuse_duration_seconds: u64 ["SECONDS"] = 60;
    }

    "Services" {
        /// Ranges from which Services get their addresses, in CIDR notation: one, or one of each
        /// family separated by a comma. The family of the first one is the default of Services.
        /// [default: 10.0.0.0/24]
        service_cluster_ip_range: AddressRanges ["CIDR,..."] = AddressRanges::default();

        /// Address at which pods and other machines reach this daemon: an endpoint of the Service
        /// default/kubernetes. Unset, it is bind-address, or the address of the default route if
        /// that is 0.0.0.0; a daemon that listens on loopback only is not an endpoint.
        /// [default: none]
        advertise_address: AdvertiseAddress ["ADDRESS"] = AdvertiseAddress(None);

        /// Port at which pods and other machines reach this daemon at advertise-address; 0 is
        /// secure-port.
        /// [default: 0]
        advertise_port: Port ["PORT"] = Port(0);

        /// How the endpoints of the Service default/kubernetes are kept: lease, or none where
        /// something else keeps them.
        /// [default: lease]
        endpoint_reconciler_type: EndpointReconciler ["TYPE"] = EndpointReconciler::Lease;

        /// Port of the nodes of the Service default/kubernetes when it is created, which is then of
        /// the type NodePort; 0 for none.
        /// [default: 0]
        kubernetes_service_node_port: u16 ["PORT"] = 0;

        /// Ports of the nodes for Services of the types NodePort and LoadBalancer.
        /// [default: 30000-32767]
        service_node_port_range: PortRange ["PORT-PORT"] = PortRange::default();
    }

    "Encryption at rest" {
        /// File that says which resources are encrypted in the store, by which ciphers and keys, in
        /// the format of Kubernetes' EncryptionConfiguration. Only its owner should be able to read
        /// it.
        /// [default: none]
        encryption_provider_config: FilePath ["FILE"] = FilePath::unset();

        /// Whether encryption-provider-config is read again every minute and used if it has
        /// changed. SIGHUP reads it again in any case.
        /// [default: false]
        encryption_provider_config_automatic_reload: Switch ["BOOL"] {switch} = Switch(false);
    }

    "etcd" {
        /// URLs of the members of the etcd cluster that keeps the objects, separated by commas.
        /// [default: none]
        etcd_servers: Names ["URLS"] = Names::default();

        /// Certificate authority (PEM) that signed the certificates of etcd's servers.
        /// [default: none]
        etcd_cafile: FilePath ["FILE"] = FilePath::unset();

        /// Certificate (PEM) that this daemon shows to etcd.
        /// [default: none]
        etcd_certfile: FilePath ["FILE"] = FilePath::unset();

        /// Private key (PEM) of etcd-certfile.
        /// [default: none]
        etcd_keyfile: FilePath ["FILE"] = FilePath::unset();

        /// Time between two compactions of etcd's history. All daemons and kube-apiservers on the
        /// cluster agree on them; 0 leaves them to the others. The embedded store has
        /// retention-age.
        /// [default: 5m]
        etcd_compaction_interval: Period ["DURATION"] = Period(Duration::from_secs(300));

        /// How often objects are counted for metrics, whatever keeps them; 0 never.
        /// [default: 1m]
        etcd_count_metric_poll_period: Period ["DURATION"] = Period(Duration::from_secs(60));

        /// How often etcd is asked for the size of its database, for metrics; 0 never.
        /// [default: 30s]
        etcd_db_metric_poll_interval: Period ["DURATION"] = Period(Duration::from_secs(30));

        /// How long etcd may take to answer for /healthz; 0 is the default.
        /// [default: 2s]
        etcd_healthcheck_timeout: Period ["DURATION"] = Period(Duration::from_secs(2));

        /// How long etcd may take to answer for /readyz; 0 is the default.
        /// [default: 2s]
        etcd_readycheck_timeout: Period ["DURATION"] = Period(Duration::from_secs(2));

        /// The prefix of every key in the store.
        /// [default: /registry]
        etcd_prefix: String ["PREFIX"] = "/registry".to_owned();

        /// Resources that other servers keep, as group/resource#url;url, separated by commas. The
        /// core group is empty; * after the slash means all resources of a group.
        /// [default: none]
        etcd_servers_overrides: ServersOverrides ["OVERRIDES"] = ServersOverrides::default();
    }

    "Kinds" {
        /// APIs that are served or not, separated by commas: api/all=false, batch/v1=false,
        /// apps/v1/daemonsets=false, v1=true for the core group. An entry for a resource overrides
        /// one for its version, and that one overrides entries for all versions.
        /// [default: none]
        runtime_config: RuntimeConfig ["APIS"] = RuntimeConfig::default();

        /// Feature gates of kube-apiserver, as Name=true, separated by commas. Names that 1.36 has
        /// are accepted. A few change something here, as docs/feature-gates.md says; the daemon
        /// lists the others at the start if they differ from their default.
        /// [default: none]
        feature_gates: FeatureGates ["GATES"] = FeatureGates::default();
    }

    "Admission" {
        /// Whether containers may be privileged. If not, they are refused in pods, in pod
        /// templates, and as ephemeral containers. kube-apiserver needs the flag to allow them.
        /// [default: true]
        allow_privileged: Switch ["BOOL"] {switch} = Switch(true);

        /// Admission plugins to run in addition to the default ones, separated by commas. The order
        /// doesn't matter. Names that kube-apiserver 1.36 has are accepted, except
        /// ImagePolicyWebhook; the daemon lists those that are not built yet at the start. For
        /// ServiceAccount the daemon creates the account default and the ConfigMap
        /// kube-root-ca.crt in each namespace, unless controllers says otherwise.
        /// [default: none]
        enable_admission_plugins: AdmissionPlugins ["NAMES"] = AdmissionPlugins::default();

        /// Default admission plugins to disable, separated by commas.
        /// [default: none]
        disable_admission_plugins: AdmissionPlugins ["NAMES"] = AdmissionPlugins::default();

        /// File with the configuration of admission plugins, in the format of Kubernetes'
        /// AdmissionConfiguration: the defaults and exemptions of PodSecurity, the resources that
        /// need a quota, and kubeconfigs with the credentials for webhooks. Read once, at the
        /// start. It and the files that it names are refused if others than their owner, the
        /// daemon's user and root can write them.
        /// [default: none]
        admission_control_config_file: FilePath ["FILE"] = FilePath::unset();

        /// Seconds that pods stay on nodes that are not ready, unless they say how long.
        /// [default: 300]
        default_not_ready_toleration_seconds: i64 ["SECONDS"] {negative} = 300;

        /// Seconds that pods stay on nodes that are unreachable, unless they say how long.
        /// [default: 300]
        default_unreachable_toleration_seconds: i64 ["SECONDS"] {negative} = 300;

        /// Whether requests to Services, such as those of webhooks, go to their endpoints instead
        /// of their cluster IPs. Switch it on where no kube-proxy makes cluster IPs reachable.
        /// [default: false]
        enable_aggregator_routing: Switch ["BOOL"] {switch} = Switch(false);

        /// Certificate (PEM) by which the daemon shows aggregated API servers that it may name
        /// users to them. Without one the daemon makes an authority and a certificate of its own,
        /// and publishes the authority in the ConfigMap extension-apiserver-authentication.
        /// [default: none]
        proxy_client_cert_file: FilePath ["FILE"] = FilePath::unset();

        /// Key of that certificate.
        /// [default: none]
        proxy_client_key_file: FilePath ["FILE"] = FilePath::unset();
    }

    "Controllers" {
        /// Controllers that run in the daemon, in the notation of kube-controller-manager: * means
        /// all of them, a name switches one on, -name off. Without * only the named ones run. There
        /// are namespace-controller, which empties deleted namespaces,
        /// garbage-collector-controller, which deletes objects without owners,
        /// clusterrole-aggregation-controller, which fills aggregated ClusterRoles, and
        /// validatingadmissionpolicy-status-controller, which checks the expressions of policies by
        /// the types of objects; if the plugin ServiceAccount runs, serviceaccount-controller,
        /// which creates the account default in each namespace, and
        /// root-ca-certificate-publisher-controller, which creates the ConfigMap kube-root-ca.crt
        /// there; and if StorageObjectInUseProtection runs,
        /// persistentvolumeclaim-protection-controller, persistentvolume-protection-controller and
        /// volumeattributesclass-protection-controller, which remove the finalizers of deleted
        /// objects that are not in use. Switch them off where a kube-controller-manager does their
        /// work: *,-namespace,-garbage-collector,-clusterrole-aggregation,-serviceaccount,
        /// -root-ca-cert-publisher.
        /// [default: *]
        controllers: Controllers ["NAMES"] {hyphens} = Controllers::default();

        /// How many objects a deletion of a collection deletes at a time; less than 1 counts as 1.
        /// [default: 64]
        delete_collection_workers: i64 ["COUNT"] {negative} = 64;

        /// Whether deletions with propagationPolicy Foreground or Orphan wait for a garbage
        /// collector: that of the daemon, or of a kube-controller-manager. If false, all deletions
        /// work like Background, and no collector runs.
        /// [default: true]
        enable_garbage_collector: Switch ["BOOL"] {switch} = Switch(true);
    }

    "Watch cache" {
        /// Whether resources have caches that serve lists and watches. Without them everything is
        /// read from the store, which costs more. Watches then get only the bookmark that ends
        /// their initial events, and lists at resourceVersion=0 obey their limit.
        /// [default: true]
        watch_cache: Switch ["BOOL"] {switch} = Switch(true);

        /// Resources that have no watch cache, as resource#0 or resource.group#0, separated by
        /// commas. Any other number means that it has one: caches have no fixed size.
        /// [default: none]
        watch_cache_sizes: WatchCacheSizes ["SIZES"] = WatchCacheSizes::default();

        /// Accepted for compatibility and ignored: caches have no fixed size.
        /// [default: none]
        default_watch_cache_size: UnusedSize ["COUNT"] = UnusedSize(None);

        /// Bytes of recent events that each resource keeps in memory for its watchers.
        /// Watchers that need older events are served from disk.
        /// [default: 8MiB]
        watch_ring_bytes: ByteSize ["SIZE"] = ByteSize(8 << 20);

        /// Bytes of recent events of all resources together.
        /// [default: 64MiB]
        watch_ring_total_bytes: ByteSize ["SIZE"] = ByteSize(64 << 20);
    }

    "Limits" {
        /// Connections served at a time. auto is as many as the limit of open files leaves room
        /// for, up to 32768; no number goes beyond that limit. A new connection replaces an
        /// unauthenticated one when all are in use. A sixteenth, at most 64, is reserved for new
        /// connections, so that probes are always answered.
        /// [default: auto]
        max_connections: ConnectionLimit ["COUNT"] = ConnectionLimit::Automatic;

        /// Connections at a time that have begun TLS and have not sent a request with valid
        /// credentials yet; three quarters of them from one address. Others wait. Never more than
        /// half of max-connections: beyond that, those that sent nothing are closed first, then the
        /// oldest. Fleets that open all their connections before they send a request need as many.
        /// [default: 8192]
        max_unauthenticated_connections: usize ["COUNT"] = 8192;

        /// Requests and watches open at a time on one HTTP/2 connection. Clients put all their
        /// watches on one connection and wait silently when it is full, so this is generous. 0 is
        /// the default.
        /// [default: 1000]
        http2_max_streams_per_connection: u32 ["COUNT"] = 1000;

        /// Whether HTTP/2 is not offered, so that all clients use HTTP/1.1.
        /// [default: false]
        disable_http2_serving: Switch ["BOOL"] {switch} = Switch(false);

        /// The chance that an answer over HTTP/2 ends its connection when its other requests are
        /// answered, from 0 to 0.02. Clients then connect again, through a load balancer to another
        /// daemon.
        /// [default: 0]
        goaway_chance: Chance ["CHANCE"] = Chance::default();

        /// Watches open at a time, of all users. One user has at most seven eighths of them.
        /// Further ones get 429 and must retry. Each takes two to three KiB of memory.
        /// [default: 131072]
        max_watches: usize ["COUNT"] = 131_072;

        /// CustomResourceDefinitions of all users. One user creates at most seven eighths of them.
        /// Further ones get 403.
        /// [default: 8192]
        max_definitions: usize ["COUNT"] = 8192;

        /// Bytes of all CustomResourceDefinitions, shared in the same way. They are in memory.
        /// [default: 512MiB]
        max_definition_bytes: ByteSize ["SIZE"] = ByteSize(512 << 20);

        /// Reading requests that are served at a time. Further ones get 429 and must retry. A list
        /// counts once for each 500 objects or MiB, up to a tenth. One user has at most seven
        /// eighths. Watches, health checks, /version and requests of system:masters don't count.
        /// [default: 400]
        max_requests_inflight: usize ["COUNT"] = 400;

        /// Writing requests that are served at a time, counted in the same way.
        /// [default: 200]
        max_mutating_requests_inflight: usize ["COUNT"] = 200;

        /// Time for the TLS handshake and the first bytes of HTTP/2, from 100ms to 1h.
        /// [default: 10s]
        handshake_timeout: Period ["DURATION"] = Period(Duration::from_secs(10));

        /// Time for the header of a request, from its first byte on, from 100ms to 1h.
        /// [default: 10s]
        header_timeout: Period ["DURATION"] = Period(Duration::from_secs(10));

        /// Time limit for requests other than watches, from 100ms to 1h. Requests may ask for less.
        /// Those that write one object get at most 34s.
        /// [default: 1m]
        request_timeout: Period ["DURATION"] = Period(Duration::from_secs(60));

        /// Seconds after which a watch ends that names no time. Each takes up to twice as long, so
        /// that clients do not come back together.
        /// [default: 1800]
        min_request_timeout: u64 ["SECONDS"] = 1800;

        /// Time after which a connection without requests is closed. It is longer than the 90 s of
        /// Go's clients, so that the client closes first and never meets a closing connection.
        /// [default: 2m]
        idle_timeout: Period ["DURATION"] = Period(Duration::from_secs(120));

        /// Time after the start from which /livez fails while a step of the start is incomplete, so
        /// that the daemon is restarted. 0 means never.
        /// [default: 0s]
        livez_grace_period: Period ["DURATION"] = Period(Duration::ZERO);

        /// Time limit for stopping: requests finish, watches end, the store is closed.
        /// [default: 10s]
        shutdown_timeout: Period ["DURATION"] = Period(Duration::from_secs(10));

        /// Time before stopping in which /readyz fails and everything else goes on, so that load
        /// balancers send clients elsewhere.
        /// [default: 0s]
        shutdown_delay_duration: Period ["DURATION"] = Period(Duration::ZERO);
    }

    "Browsers" {
        /// Origins of web pages that may use this API in a browser, as regular expressions,
        /// separated by commas. Each begins with ^ or //, and ends with $ or :.
        /// [default: none]
        cors_allowed_origins: Texts ["REGEXES"] = Texts::default();

        /// Directives of the header Strict-Transport-Security, separated by commas:
        /// max-age=SECONDS, includeSubDomains, preload. Unset, the header is not sent.
        /// [default: none]
        strict_transport_security_directives: Texts ["DIRECTIVES"] = Texts::default();
    }

    "Threads" {
        /// Threads that serve HTTP, up to 1024; 0 is one per core.
        /// [default: 0]
        http_threads: usize ["COUNT"] = 0;

        /// Threads that keep the caches, up to 1024; 0 is one for each four cores, at least one and
        /// at most four.
        /// [default: 0]
        data_threads: usize ["COUNT"] = 0;
    }

    "Logs" {
        /// Messages to log: error, warn, info or debug, or a filter such as
        /// info,taffrail::server=debug. A development build also knows trace, for the libraries it
        /// uses.
        /// [default: info]
        log_level: LogFilter ["FILTER"] = LogFilter::default();

        /// Format of the log on stderr: text, json, or auto. auto is text, coloured on a terminal.
        /// [default: auto]
        log_format: LogFormat ["FORMAT"] = LogFormat::Auto;

        /// Requests that get a line in the log: all, off, or failures, which are 403, 429 and 5xx.
        /// Refused logins have lines of their own.
        /// [default: failures]
        access_log: AccessLogMode ["MODE"] = AccessLogMode::Failures;

        /// Policy of the audit log: which requests are recorded, and how much of them. A policy of
        /// kube-apiserver (audit.k8s.io/v1). Needs audit-log-path.
        /// [default: none]
        audit_policy_file: FilePath ["FILE"] = FilePath::unset();

        /// File of the audit log, or - for standard output. It has a line of JSON for each event,
        /// and is accessible only to its owner. Events that come faster than they can be written
        /// are dropped, counted and reported in the log. Needs audit-policy-file.
        /// [default: none]
        audit_log_path: FilePath ["FILE"] = FilePath::unset();

        /// Megabytes of the audit log after which a new file begins; 0 never.
        /// [default: 100]
        audit_log_maxsize: u64 ["MEGABYTES"] = 100;

        /// How many earlier files of the audit log are kept; 0 all.
        /// [default: 0]
        audit_log_maxbackup: usize ["COUNT"] = 0;

        /// Days that earlier files of the audit log are kept; 0 for ever.
        /// [default: 0]
        audit_log_maxage: u64 ["DAYS"] = 0;

        /// Whether audit events of more than audit-log-truncate-max-event-size lose their bodies.
        /// Those that are too long without them, too, are dropped and counted as lost.
        /// [default: false]
        audit_log_truncate_enabled: Switch ["BOOL"] {switch} = Switch(false);

        /// The most bytes of an audit event, if audit-log-truncate-enabled is set.
        /// [default: 102400]
        audit_log_truncate_max_event_size: usize ["BYTES"] = 102_400;
    }
}
