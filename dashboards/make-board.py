#!/usr/bin/env python3
"""Writes taffrail.json, the Grafana board, from the list of panels below.

    dashboards/make-board.py            write it
    dashboards/make-board.py --check    fail if it is not what would be written
"""

import json
import pathlib
import sys

BOARD = pathlib.Path(__file__).with_name("taffrail.json")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24

# What the expressions below have in braces: @ selects the daemons, # selects the job in recorded rules.
DAEMONS = 'job="$job",instance=~"$instance"'
JOB = 'job="$job"'


def expression(text):
    return " ".join(text.replace("@", DAEMONS).replace("#", JOB).split())


def panel(title, unit, description, *queries, kind="timeseries", stack=False, steps=None, low=0, high=None):
    """A panel. `queries` are pairs of an expression and the legend of its series. `steps` are thresholds with the
    colours that begin at them."""
    return dict(title=title, unit=unit, description=" ".join(description.split()), queries=queries, kind=kind,
                stack=stack, steps=steps, low=low, high=high)


def rate(metric, by, more=""):
    return f"sum by ({by}) (rate({metric}{{@{more}}}[$__rate_interval]))"


def quantile(share, metric, by, more=""):
    labels = ", ".join(filter(None, [by, "le"]))
    return f"histogram_quantile({share}, {rate(metric + '_bucket', labels, more)})"


def zero(query):
    """The value, or 0 while there is no series: nothing has failed yet."""
    return f"{query} or vector(0)"


def top(query):
    """The ten largest series, without those that are 0. There may be hundreds of resources."""
    return f"topk(10, {query} > 0)"


ROWS = [
    ("Summary", 4, 4, [
        panel("Daemons that do not answer", "none", """
            Targets of the job that Prometheus cannot scrape. If it is not 0: is the process there, and does its
            metrics port listen? See the alert TaffrailDown.""",
            ("sum(up{@} == bool 0)", "down"), kind="stat", steps=[("red", 1)]),
        panel("Health checks that fail", "none", """
            Checks of /readyz that fail now, over all daemons. If it is not 0: ask /readyz?verbose which they are. The
            check storage-integrity means damaged data. The check storage means that writes are refused.""",
            ('sum(kubernetes_healthcheck{@,type="readyz"} == bool 0)', "failing"), kind="stat", steps=[("red", 1)]),
        panel("Good requests, 30 days", "percentunit", """
            The share of requests that were answered without a 5xx and in time. Below 99 % the objective is missed:
            look at the panels Errors, and Answered in time. Needs recording.yaml.""",
            ('job_verb:apiserver_request:availability30d{#,verb="all"}', "good"), kind="stat", low=None,
            steps=[("red", None), ("green", 0.99)]),
        panel("Error budget left, 30 days", "percentunit", """
            What is left of the 1 % of requests that may fail or be slow. Below 0 it is overdrawn: put off risky
            changes. Needs recording.yaml.""",
            ('job_verb:apiserver_request:errorbudget30d{#,verb="all"}', "left"), kind="stat", low=None,
            steps=[("red", None), ("orange", 0), ("green", 0.25)]),
        panel("First certificate ends in", "s", """
            Time until the first certificate of any daemon ends. The daemon renews those that it made itself. If it is
            less than 30 days: replace the files of --tls-cert-file and --tls-private-key-file. No restart is needed.
            """,
            ("min(taffrail_certificate_expiration_timestamp_seconds{@}) - time()", "left"), kind="stat", low=None,
            steps=[("red", None), ("orange", 3 * 86400), ("green", 30 * 86400)]),
        panel("Versions", "none", """
            Daemons by version and commit. More than one while no update is under way: finish it.""",
            ("count by (version, commit) (taffrail_build_info{@})", "{{version}} {{commit}}"), kind="stat"),
    ]),
    ("Traffic", None, 8, [
        panel("Requests", "reqps", """
            Requests a second by verb. WATCH counts watches that begin. A jump of LIST or WATCH means that many clients
            start anew at a time: look at the panel Watches that begin, fall behind or end.""",
            (rate("apiserver_request_total", "verb"), "{{verb}}"), stack=True),
        panel("Errors", "reqps", """
            Answers with 5xx by code. 503 on writes means a full disk. 500 and 504 mean that the disk or etcd fails or
            does not answer: see the row Log and storage, and the log. All should be 0.""",
            (rate("apiserver_request_total", "code", ',code=~"5.."'), "{{code}}"),
            (zero('sum(rate(apiserver_request_total{@,code=~"5.."}[$__rate_interval]))'), "all")),
        panel("Refused requests", "reqps", """
            Answers with 4xx by code. 404 and 409 are usual: clients look whether something is there, and try again when
            somebody else was faster. 401 and 403 name a client with the wrong credentials or rights, 429 one that asks
            for too much.""",
            (rate("apiserver_request_total", "code", ',code=~"4.."'), "{{code}}")),
        panel("Refused by limits", "ops", """
            Requests and connections that were refused or ended to protect the daemon. All should be 0. If not: find
            the client that sends too much, or raise the limit by its flag (--max-requests-inflight,
            --max-mutating-requests-inflight, --max-watches, --max-connections), or add a daemon. Turns that
            connections waited for are no refusals: one user takes much, and the others go first.""",
            (rate("apiserver_request_terminations_total", "code"), "answered {{code}}"),
            ("sum(rate(taffrail_heavy_requests_refused_total{@}[$__rate_interval]))", "large requests"),
            ("sum(rate(taffrail_request_bodies_refused_total{@}[$__rate_interval]))", "bodies"),
            ("sum(rate(taffrail_http2_requests_refused_total{@}[$__rate_interval]))", "requests of full connections"),
            ("sum(rate(taffrail_connections_refused_total{@}[$__rate_interval]))", "connections"),
            ("sum(rate(taffrail_connections_unauthenticated_closed_total{@}[$__rate_interval]))",
             "connections without credentials"),
            ("sum(rate(taffrail_http2_floods_total{@}[$__rate_interval]))", "floods"),
            ("sum(rate(taffrail_connections_vanished_total{@}[$__rate_interval]))", "clients that vanished"),
            ("sum(rate(taffrail_http_turns_waited_total{@}[$__rate_interval]))", "turns waited for")),
        panel("Requests in flight", "none", """
            Requests that are being answered, without watches. They are refused by 429 at --max-requests-inflight (400)
            and --max-mutating-requests-inflight (200). If it stays high while traffic does not: requests wait for the
            disk or etcd, see the panel Calls to the store.""",
            ("sum by (request_kind) (apiserver_current_inflight_requests{@})", "{{request_kind}}")),
        panel("Connections", "none", """
            Open connections. Those without credentials have sent no good request yet. Many of them for long mean a
            port scan, a probe that does not close, or clients with bad certificates.""",
            ("sum(taffrail_connections{@})", "all"),
            ("sum(taffrail_connections_unauthenticated{@})", "without credentials")),
        panel("Credentials and rights refused", "ops", """
            Requests with bad credentials, requests that were not allowed, and failed TLS handshakes. A steady rate is a
            client with an old token or the wrong CA. A burst may be a stranger. The access log and the audit log name
            the address.""",
            (rate("authentication_attempts", "result", ',result!="success"'), "credentials: {{result}}"),
            (rate("authorization_attempts_total", "result", ',result!="allowed"'), "rights: {{result}}"),
            ("sum(rate(apiserver_tls_handshake_errors_total{@}[$__rate_interval]))", "TLS handshakes")),
        panel("Audit log", "ops", """
            Events written to the audit log, and events that were lost. Any loss is a gap in the record: make the log's
            disk faster, or record less by the audit policy.""",
            ("sum(rate(apiserver_audit_event_total{@}[$__rate_interval]))", "written"),
            (rate("apiserver_audit_error_total", "plugin"), "lost by {{plugin}}")),
    ]),
    ("Latency", None, 8, [
        panel("Slowest 1 % of requests, by verb and scope", "s", """
            The time within which 99 % of the requests were answered. The objective is 1 s for writes and single
            objects, 5 s for lists of a namespace, 30 s for lists of everything. If writes are slow: see the panel
            Commits take. If only lists are: clients should page, use selectors, or watch.""",
            (quantile(0.99, "apiserver_request_duration_seconds", "verb, scope"), "{{verb}} {{scope}}")),
        panel("Answered in time, by verb and scope", "percentunit", """
            The share of requests that met the objective for their verb and scope. Below 99 % the error budget is used
            up faster than it grows. Needs recording.yaml.""",
            ("job_verb_scope:apiserver_request_in_time:ratio5m{#}", "{{verb}} {{scope}}"), low=None, high=1),
        panel("Bad requests over several windows", "percentunit", """
            The share of requests that failed or were slow. 1 % in all windows uses up the budget exactly. Alerts fire
            at 14.4 % over one hour, 6 % over six, 3 % over a day and 1 % over three. Needs recording.yaml.""",
            ('job_verb:apiserver_request:burnrate5m{#,verb=~"read|write"}', "{{verb}} 5m"),
            ('job_verb:apiserver_request:burnrate1h{#,verb=~"read|write"}', "{{verb}} 1h"),
            ('job_verb:apiserver_request:burnrate6h{#,verb=~"read|write"}', "{{verb}} 6h"),
            ('job_verb:apiserver_request:burnrate3d{#,verb=~"read|write"}', "{{verb}} 3d")),
        panel("Slowest 1 % of requests, by resource", "s", """
            The ten resources whose slowest 1 % of requests take longest. One that stands out has very many or very
            large objects, or many writers of one object.""",
            (top(quantile(0.99, "apiserver_request_duration_seconds", "resource", ',resource!=""')),
             "{{resource}}")),
    ]),
    ("Fan-out", None, 8, [
        panel("Open watches", "none", """
            Watches by resource. A fall to near 0 that comes back means that all clients lost their connection. See
            docs/sizing.md for how many one daemon serves.""",
            (top('sum by (resource) (apiserver_longrunning_requests{@,verb="WATCH"})'), "{{resource}}"), stack=True),
        panel("Events that came from the store", "ops", """
            Changes that watch caches received, by resource. Each goes to the watches that it concerns. An unusual
            resource on top has a client that writes too often. Leases and events are the usual ones.""",
            (top(rate("apiserver_watch_cache_events_received_total", "resource")), "{{resource}}"), stack=True),
        panel("Events that went to watches", "ops", """
            Events sent, by resource. One that goes to a thousand watches counts a thousand times. Divided by the events
            that came it is the fan-out. If it costs too much CPU: let clients use selectors.""",
            (top(rate("apiserver_watch_events_total", "resource")), "{{resource}}"), stack=True),
        panel("Delay from store to cache to watches", "s", """
            How long the slowest 1 % of consistent reads waited until the watch cache had what the store has, and how
            long the slowest 1 % of events took from the cache to the connections of watches. The sum is how late
            watches see changes. More than 0.1 s: the data threads lack CPU, or etcd answers slowly; the HTTP threads
            lack CPU. The third series is the time of the initial events of a streaming list.""",
            (top(quantile(0.99, "apiserver_watch_cache_read_wait_seconds", "resource")), "{{resource}} to the cache"),
            (top(quantile(0.99, "taffrail_watch_delivery_seconds", "resource")), "{{resource}} to watches"),
            (top(quantile(0.99, "apiserver_watch_list_duration_seconds", "resource")), "{{resource}} initial events")),
        panel("Rings", "bytes", """
            Bytes of recent events that each resource keeps in memory for its watches. At --watch-ring-bytes (8 MiB) the
            oldest go. Full rings are usual. If watches fall behind as well, make the rings larger.""",
            (top("sum by (resource) (taffrail_watch_ring_bytes{@})"), "{{resource}}")),
        panel("Watches that begin, fall behind or end", "ops", """
            Watches that begin, reads of history for watches that are behind the ring, caches that were filled anew,
            and watches that a reload of credentials ended. Clients open each watch again every 5 to 10 minutes. Reads
            of history after a restart are usual. If they go on: clients are too slow, or rings too small. If far more
            watches begin than that: something ends them, or --retention-age is too short.""",
            (top(rate("apiserver_request_total", "resource", ',verb="WATCH"')), "{{resource}} begun"),
            (top(rate("taffrail_watch_history_reads_total", "resource")), "{{resource}} reads history"),
            (top(rate("apiserver_watch_cache_initializations_total", "resource")), "{{resource}} cache filled"),
            ("sum(rate(taffrail_watches_revoked_total{@}[$__rate_interval]))", "access revoked")),
    ]),
    ("Log and storage", None, 8, [
        panel("Events and commits", "ops", """
            Changes written, the commits that they shared, and changes that were refused because the object had changed
            meanwhile. Many refusals: several clients write one object. If commits are as many as events and slow, more
            writers cost nothing. The embedded store only.""",
            ("sum(rate(taffrail_storage_events_total{@}[$__rate_interval]))", "events"),
            ("sum(rate(taffrail_storage_commit_duration_seconds_count{@}[$__rate_interval]))", "commits"),
            ("sum(rate(taffrail_storage_refusals_total{@}[$__rate_interval]))", "refused")),
        panel("Commits take", "s", """
            Time of a commit to the journal, sync included, and of a checkpoint of the database, which no writer waits
            for. A commit of more than 0.05 s is a slow or busy disk: give the data directory a disk of its own. The
            embedded store only.""",
            (quantile(0.5, "taffrail_storage_commit_duration_seconds", ""), "half of the commits"),
            (quantile(0.99, "taffrail_storage_commit_duration_seconds", ""), "99 % of the commits"),
            (quantile(0.99, "taffrail_storage_checkpoint_duration_seconds", ""), "99 % of the checkpoints")),
        panel("Calls to the store take", "s", """
            Time of the slowest 1 % of calls to the embedded store or etcd, by operation. If it grows and commits do
            not: writers wait for each other at one object. With etcd: look at its own metrics and the network.""",
            (quantile(0.99, "etcd_request_duration_seconds", "operation"), "{{operation}}")),
        panel("Size on disk", "bytes", """
            What the store takes on disk, and what of it is records. A file much larger than its records shrinks when
            the daemon copies it; `taffrail compact` does so at once. If records grow without end: see the panel
            Objects, and --retention-bytes.""",
            ("sum by (instance, storage_cluster_id) (apiserver_storage_size_bytes{@})",
             "{{instance}} {{storage_cluster_id}}"),
            ("sum by (instance) (taffrail_storage_retained_bytes{@})", "{{instance}} records")),
        panel("History kept", "none", """
            Revisions from the compacted one to the newest, which is how far back watches can resume. It levels off at
            --retention-age or --retention-bytes, and with etcd at --etcd-compaction-interval. If it only grows:
            compaction fails, the log says why.""",
            ("max by (instance) (apiserver_watch_cache_resource_version{@}) "
             "- max by (instance) (taffrail_compacted_revision{@})", "{{instance}}")),
        panel("Faults of the store", "none", """
            Everything here should be 0. Damaged records and values that cannot be read are named by
            /readyz/storage-integrity and the log: restore from a backup, or put the missing key back. Failing
            compaction and expiry are explained in the log. A reopened database means disk errors. A failing call is
            counted in calls a second.""",
            ("sum by (instance) (taffrail_storage_damaged_records{@})", "{{instance}} damaged records"),
            ("sum by (resource) (taffrail_unreadable_values{@}) > 0", "{{resource}} unreadable"),
            ("sum by (store) (taffrail_compaction_failing{@})", "{{store}} compaction fails"),
            ("sum by (store) (taffrail_lease_expiry_failing{@} + taffrail_lease_expiry_behind{@})",
             "{{store}} expiry fails or is behind"),
            ("sum by (instance) (increase(taffrail_storage_reopened_total{@}[$__rate_interval]))",
             "{{instance}} reopened"),
            (rate("apiserver_storage_transformation_operations_total", "resource", ',status!="OK"'),
             "{{resource}} encryption fails"),
            (rate("etcd_request_errors_total", "operation") + " > 0", "{{operation}} fails")),
    ]),
    ("Actors", None, 8, [
        panel("Parts out of order", "none", """
            Parts that are not at work, that have not turned for 5 seconds, or that failed too often and are left alone
            for a minute. Nothing should be here but at a start. Each is a fault of Taffrail: keep the log, and report
            it.""",
            ("1 - taffrail_part_ready{@} > 0", "{{part}} not at work"),
            ("taffrail_stalled{@} > 0", "{{part}} stalled"),
            ("taffrail_actors_degraded{@} > 0", "{{actor}} left alone"),
            (zero("count(taffrail_part_ready{@} == 0)"), "all that are not at work")),
        panel("Failures and restarts", "none", """
            Actors that failed, actors that were restarted, and parts that did not turn for 5 seconds, within the last 5
            minutes. Each failure has a panic in the log: report it.""",
            ("sum by (actor, reason) (increase(taffrail_actor_deaths_total{@}[5m]))", "{{actor}} {{reason}}"),
            ("sum by (actor) (increase(taffrail_actor_restarts_total{@}[5m]))", "{{actor}} restarted"),
            ("sum by (part) (increase(taffrail_stalls_total{@}[5m]))", "{{part}} stalled"),
            (zero("sum(increase(taffrail_actor_deaths_total{@}[5m]))"), "all failures")),
        panel("Waiting for actors", "s", """
            How long the slowest 1 % of senders waited for room in the mailbox of an actor, by kind. More than 0.1 s:
            the data threads lack CPU (--data-threads), or one object has too many writers.""",
            (quantile(0.99, "taffrail_mailbox_blocked_seconds", "actor"), "{{actor}}")),
        panel("Namespaces being deleted", "none", """
            The queue of the namespace controller: namespaces that wait, tries a second, those of them that did not
            finish, and the seconds that the longest one has taken. A namespace that never ends has objects with
            finalizers whose controller is gone.""",
            ("sum by (name) (workqueue_depth{@})", "{{name}} waiting"),
            (rate("workqueue_adds_total", "name"), "{{name}} tries a second"),
            (rate("workqueue_retries_total", "name"), "{{name}} unfinished a second"),
            ("max by (name) (workqueue_longest_running_processor_seconds{@})", "{{name}} longest, seconds")),
    ]),
    ("Resources", None, 8, [
        panel("Objects", "none", """
            Objects stored, by resource. One that grows without end has a client that creates and never deletes. Find it
            in the audit log.""",
            (top("max by (resource, group) (apiserver_resource_objects{@})"), "{{resource}}")),
        panel("Bytes of objects", "bytes", """
            Bytes of the objects stored, by resource. They are in memory too, once. What is large here decides the
            daemon's memory.""",
            (top("max by (resource, group) (apiserver_resource_size_estimate_bytes{@})"), "{{resource}}")),
        panel("Lists", "reqps", """
            Lists that the watch cache answered and lists that went to the store. Those of the store cost more: they are
            of versions long past, or of resources without a watch cache.""",
            (top(rate("apiserver_cache_list_total", "resource")), "{{resource}} from the cache"),
            (top(rate("apiserver_storage_list_total", "resource")), "{{resource}} from the store")),
        panel("Objects looked at for lists", "ops", """
            Objects that lists looked at, and objects that they answered. If far more are looked at than answered,
            selectors throw most of them away: clients should watch, or select by an indexed field.""",
            (top(rate("apiserver_cache_list_fetched_objects_total", "resource")), "{{resource}} looked at"),
            (top(rate("apiserver_cache_list_returned_objects_total", "resource")), "{{resource}} answered")),
    ]),
    ("Process", None, 8, [
        panel("CPU", "none", """
            Cores that a daemon uses. If it comes close to the machine's, requests and events are late: let clients use
            selectors, or add a daemon on etcd.""",
            ("sum by (instance) (rate(process_cpu_seconds_total{@}[$__rate_interval]))", "{{instance}}")),
        panel("Memory", "bytes", """
            Resident memory. It follows the bytes of objects, the rings and the connections. If it grows while those do
            not, report it.""",
            ("sum by (instance) (process_resident_memory_bytes{@})", "{{instance}}")),
        panel("Open files", "none", """
            Open files, sockets included, and how many there may be. At the limit no connection is accepted: raise
            LimitNOFILE, or ulimit -n.""",
            ("sum by (instance) (process_open_fds{@})", "{{instance}}"),
            ("sum by (instance) (process_max_fds{@})", "{{instance}} limit")),
        panel("Held for clients", "bytes", """
            Bytes of requests that wait and of answers that their clients have not taken. If it stays high: a client
            reads too slowly, or the network to it is the limit.""",
            ("sum by (instance) (taffrail_connections_held_bytes{@})", "{{instance}}")),
    ]),
]


def widths(count):
    """The widths of a row's panels: three or four in a line, so that each line is full."""
    lines = {4: [4], 6: [3, 3], 7: [4, 3], 8: [4, 4]}[count]
    return [COLUMNS // line for line in lines for _ in range(line)]


def thresholds(steps):
    if not steps or steps[0][1] is not None:
        steps = [("green", None)] + (steps or [])
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in steps]}


def as_json(it, number, place):
    defaults = {"unit": it["unit"], "thresholds": thresholds(it["steps"]), "color": {"mode": "thresholds"}}
    made = {
        "id": number,
        "type": it["kind"],
        "title": it["title"],
        "description": it["description"],
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "editorMode": "code",
                "expr": expression(query),
                "legendFormat": legend,
                "range": it["kind"] != "stat",
                "instant": it["kind"] == "stat",
            }
            for index, (query, legend) in enumerate(it["queries"])
        ],
    }
    if it["kind"] == "stat":
        made["options"] = {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "value_and_name" if it["title"] == "Versions" else "value",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
        return made
    for name, value in ("min", it["low"]), ("max", it["high"]):
        if value is not None:
            defaults[name] = value
    defaults["color"] = {"mode": "palette-classic"}
    defaults["custom"] = {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 25 if it["stack"] else 0,
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"group": "A", "mode": "normal" if it["stack"] else "none"},
    }
    made["options"] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return made


def panels():
    made, y = [], 0
    for title, width, height, row in ROWS:
        made.append({
            "id": len(made) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
        })
        x, y = 0, y + 1
        for it, w in zip(row, [width] * len(row) if width else widths(len(row))):
            if x + w > COLUMNS:
                x, y = 0, y + height
            made.append(as_json(it, len(made) + 1, {"h": height, "w": w, "x": x, "y": y}))
            x += w
        y += height
    return made


def variable(name, label, query, **more):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "options": [],
        **more,
    }


def board():
    return {
        "title": "Taffrail",
        "uid": "taffrail",
        "description": "Taffrail: requests, watches, storage and the process. Each panel says what to do.",
        "tags": ["taffrail", "kubernetes"],
        "schemaVersion": 42,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "fiscalYearStartMonth": 0,
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "timepicker": {},
        "links": [],
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                    "refresh": 1,
                    "hide": 0,
                    "includeAll": False,
                    "multi": False,
                    "options": [],
                    "regex": "",
                },
                variable("job", "Job", "label_values(taffrail_part_ready, job)", includeAll=False, multi=False,
                         current={"text": "taffrail", "value": "taffrail"}),
                variable("instance", "Instance", 'label_values(taffrail_part_ready{job="$job"}, instance)',
                         includeAll=True, multi=True, allValue=".+", current={"text": ["All"], "value": ["$__all"]}),
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Starts",
                    "enable": True,
                    "iconColor": "orange",
                    "datasource": SOURCE,
                    "target": {
                        "refId": "Anno",
                        "expr": expression("changes(process_start_time_seconds{@}[2m]) > 0"),
                        "interval": "60s",
                    },
                    "titleFormat": "{{instance}} started",
                }
            ]
        },
        "panels": panels(),
    }


def main():
    text = json.dumps(board(), indent=2) + "\n"
    if sys.argv[1:] == ["--check"]:
        if not BOARD.exists() or BOARD.read_text() != text:
            sys.exit(f"{BOARD.name} is not what make-board.py writes: run dashboards/make-board.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        BOARD.write_text(text)


if __name__ == "__main__":
    main()
