//! Certificates made for a test.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509NameBuilder};

/// A certificate and its key.
pub struct Certificate {
    /// The certificate.
    pub certificate: X509,
    /// Its private key.
    pub key: PKey<Private>,
}

/// What a certificate says.
pub struct Says<'a> {
    /// Common name of its subject.
    pub common_name: &'a str,
    /// DNS names among its alternative names.
    pub dns: &'a [&'a str],
    /// Address among them.
    pub ip: Option<&'a str>,
    /// Whether its time is over.
    pub is_expired: bool,
}

impl<'a> Says<'a> {
    /// Nothing but a common name.
    pub fn name(common_name: &'a str) -> Self {
        Self { common_name, dns: &[], ip: None, is_expired: false }
    }
}

impl Certificate {
    /// An authority of its own, with a key of RSA as most still have.
    ///
    /// # Panics
    /// When OpenSSL does not make it.
    pub fn authority(name: &str) -> Self {
        let key = PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key");
        let mut builder = begin(&Says::name(name), &key);
        let constraints = BasicConstraints::new().critical().ca().build().expect("an extension");
        builder.append_extension(constraints).expect("an extension");
        let subject = name_of(name);
        builder.set_issuer_name(&subject).and_then(|()| builder.sign(&key, MessageDigest::sha256())).expect("signed");
        Self { certificate: builder.build(), key }
    }

    /// A certificate signed by this authority.
    ///
    /// # Panics
    /// When OpenSSL does not make it.
    #[must_use]
    pub fn sign(&self, says: &Says<'_>) -> Self {
        let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
        let key = PKey::from_ec_key(EcKey::generate(&curve).expect("a key")).expect("a key");
        let mut builder = begin(says, &key);
        let mut names = SubjectAlternativeName::new();
        for name in says.dns {
            names.dns(name);
        }
        if let Some(address) = says.ip {
            names.ip(address);
        }
        if !says.dns.is_empty() || says.ip.is_some() {
            let context = builder.x509v3_context(Some(&self.certificate), None);
            let extension = names.build(&context).expect("an extension");
            builder.append_extension(extension).expect("an extension");
        }
        let issuer = self.certificate.subject_name();
        builder
            .set_issuer_name(issuer)
            .and_then(|()| builder.sign(&self.key, MessageDigest::sha256()))
            .expect("signed");
        Self { certificate: builder.build(), key }
    }
}

impl Certificate {
    /// Writes the certificate and its key into a folder, as `NAME.pem` and `NAME.key`.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn write(&self, folder: &Path, name: &str) {
        let files = [
            ("pem", self.certificate.to_pem().expect("PEM")),
            ("key", self.key.private_key_to_pem_pkcs8().expect("PEM")),
        ];
        for (ending, octets) in files {
            std::fs::write(folder.join(name).with_extension(ending), octets).expect("written");
        }
    }
}

fn name_of(common_name: &str) -> openssl::x509::X509Name {
    let mut name = X509NameBuilder::new().expect("a name");
    name.append_entry_by_nid(Nid::COMMONNAME, common_name).expect("a name");
    name.build()
}

/// Certificates made by this process: no two have the same serial number.
static MADE: AtomicU32 = AtomicU32::new(1);

fn begin(says: &Says<'_>, key: &PKey<Private>) -> X509Builder {
    let mut builder = X509::builder().expect("a builder");
    builder.set_version(2).expect("version 3");
    let serial = [std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)].map(u32::to_be_bytes).concat();
    let serial = BigNum::from_slice(&serial).and_then(|number| number.to_asn1_integer());
    builder.set_serial_number(&serial.expect("a number")).expect("a number");
    builder.set_subject_name(&name_of(says.common_name)).expect("a name");
    builder.set_pubkey(key).expect("a key");
    let after = if says.is_expired { "20010102000000Z" } else { "20991231000000Z" };
    for (time, is_start) in [("20010101000000Z", true), (after, false)] {
        let time = Asn1Time::from_str(time).expect("a time");
        if is_start { builder.set_not_before(&time) } else { builder.set_not_after(&time) }.expect("a time");
    }
    builder
}
