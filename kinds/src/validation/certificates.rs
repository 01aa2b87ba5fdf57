//! What is refused of CertificateSigningRequests.
