//! Files that are missing, wrong or do not belong together.

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::symm::Cipher;
use openssl::x509::X509;
use weir_secure::{
    ClientAuth, DtlsServer, PemContent, TlsClient, TlsClientOptions, TlsError, TlsServer, TlsServerOptions,
};

use super::{Authority, Says};

/// The error of all servers with these options.
fn refused(options: &TlsServerOptions) -> TlsError {
    let error = TlsServer::new(options).expect_err("TLS");
    assert_eq!(DtlsServer::new(options).expect_err("DTLS").to_string(), error.to_string());
    error
}

fn is_read(error: &TlsError, of: PemContent) -> bool {
    matches!(error, TlsError::Read { content, path, .. } if *content == of && path.ends_with("absent"))
}

fn is_parse(error: &TlsError, of: PemContent, with_passphrase: bool) -> bool {
    matches!(error, TlsError::Parse { content, encrypted, .. } if *content == of && *encrypted == with_passphrase)
}

#[test]
fn unreadable_files_are_named() {
    let files = Authority::new();
    let (absent, good) = (files.path("absent"), files.server(ClientAuth::Require, &[]));
    let error = refused(&TlsServerOptions { certificate: absent.clone(), ..good.clone() });
    assert!(is_read(&error, PemContent::Certificate), "{error:?}");
    assert_eq!(error.to_string(), format!("cannot read the certificate {}", absent.display()));
    let error = refused(&TlsServerOptions { key: absent.clone(), ..good.clone() });
    assert!(is_read(&error, PemContent::Key), "{error:?}");
    let error = refused(&TlsServerOptions { authorities: Some(absent.clone()), ..good });
    assert!(is_read(&error, PemContent::Authorities), "{error:?}");

    let error = TlsClient::new(&TlsClientOptions { authorities: Some(absent.clone()), identity: None });
    assert!(is_read(&error.expect_err("absent"), PemContent::Authorities));
    let identity = Some((files.path("server.pem"), absent));
    let error = TlsClient::new(&TlsClientOptions { authorities: None, identity });
    assert!(is_read(&error.expect_err("absent"), PemContent::Key));
}

#[test]
fn files_that_hold_something_else_are_refused() {
    let files = Authority::new();
    let good = files.server(ClientAuth::Require, &[]);
    for garbage in [&b""[..], b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let garbage = files.write("garbage.pem", garbage);
        let error = refused(&TlsServerOptions { certificate: garbage.clone(), ..good.clone() });
        assert!(is_parse(&error, PemContent::Certificate, false), "{error:?}");
        let error = refused(&TlsServerOptions { key: garbage.clone(), ..good.clone() });
        assert!(is_parse(&error, PemContent::Key, false), "{error:?}");
        let error = refused(&TlsServerOptions { authorities: Some(garbage), ..good.clone() });
        assert!(is_parse(&error, PemContent::Authorities, false), "{error:?}");
    }
    // a key where a certificate should be
    let error = refused(&TlsServerOptions { certificate: good.key.clone(), ..good.clone() });
    assert!(is_parse(&error, PemContent::Certificate, false), "{error:?}");
}

#[test]
fn a_key_with_a_passphrase_is_refused_with_a_hint() {
    let files = Authority::new();
    let key = &files.authority.key;
    let locked = key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_128_cbc(), b"secret").expect("a key");
    let options =
        TlsServerOptions { key: files.write("locked.key", &locked), ..files.server(ClientAuth::Require, &[]) };
    let error = refused(&options);
    assert!(is_parse(&error, PemContent::Key, true), "{error:?}");
    assert!(error.to_string().contains("\nhint: it has a passphrase"), "{error}");
}

#[test]
fn the_key_of_another_certificate_is_refused_at_both_ends() {
    let files = Authority::new();
    files.sign("other", &Says::name("other"));
    let error = refused(&TlsServerOptions { key: files.path("other.key"), ..files.server(ClientAuth::Require, &[]) });
    assert!(matches!(error, TlsError::Mismatch { .. }), "{error:?}");
    let identity = Some((files.path("server.pem"), files.path("other.key")));
    let error = TlsClient::new(&TlsClientOptions { identity, ..files.client(None) }).expect_err("another key");
    assert!(matches!(error, TlsError::Mismatch { .. }), "{error:?}");
    assert!(error.to_string().contains("other.key does not belong to the certificate"), "{error}");
}

#[test]
fn a_certificate_with_a_short_key_is_refused() {
    let files = Authority::new();
    let key = PKey::from_rsa(Rsa::generate(512).expect("a key")).expect("a key");
    let mut builder = X509::builder().expect("a builder");
    builder.set_pubkey(&key).expect("a key");
    builder.set_not_before(&Asn1Time::days_from_now(0).expect("a time")).expect("a time");
    builder.set_not_after(&Asn1Time::days_from_now(1).expect("a time")).expect("a time");
    builder.sign(&key, MessageDigest::sha256()).expect("signed");
    let certificate = files.write("short.pem", &builder.build().to_pem().expect("PEM"));
    let key = files.write("short.key", &key.private_key_to_pem_pkcs8().expect("PEM"));
    let error = refused(&TlsServerOptions { certificate, key, ..files.server(ClientAuth::Require, &[]) });
    assert!(matches!(&error, TlsError::Refused { path, .. } if path.ends_with("short.pem")), "{error:?}");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let files = Authority::new();
    for client_auth in [ClientAuth::Request, ClientAuth::Require] {
        let options = TlsServerOptions { authorities: None, ..files.server(client_auth, &[]) };
        assert!(matches!(refused(&options), TlsError::NoAuthorities));
    }
    for client_auth in [ClientAuth::None, ClientAuth::Request] {
        let error = refused(&files.server(client_auth, &["router"]));
        assert!(matches!(error, TlsError::NamesWithoutCertificates), "{error:?}");
    }
    let options = TlsServerOptions { authorities: None, ..files.server(ClientAuth::None, &[]) };
    TlsServer::new(&options).expect("no certificates are checked");
}
