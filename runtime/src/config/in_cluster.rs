//! The service account that the kubelet mounts into every pod.

use super::error::{ConfigError, ConfigErrorKind};
use super::{
    Config, DEFAULT_NAMESPACE, Endpoint, HttpVersion, Pings, Surroundings, TlsFiles, TlsSettings, TokenSource, file,
};

/// Where the kubelet mounts token, CA and namespace.
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(crate) fn config(around: &Surroundings) -> Result<Config, ConfigError> {
    let (Some(host), Some(port)) = (&around.service_host, &around.service_port) else {
        let message = "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set; \
                       give a kubeconfig instead";
        return Err(ConfigError::new(ConfigErrorKind::NotFound, message));
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let server = Endpoint::parse(&format!("https://{host}:{port}"))
        .map_err(|error| error.at("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"))?;
    let mount = &around.service_account;
    let read = |name| {
        file::read(&mount.join(name), file::MAX_CREDENTIAL_FILE)
            .map_err(|error| error.at("service account (is automountServiceAccountToken off for this pod?)"))
    };
    let ca = read("ca.crt")?;
    // Not every mount has a namespace file; the token may also come later: the kubelet writes it.
    let namespace = read("namespace").ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let namespace = namespace.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    Ok(Config {
        server,
        tls: TlsSettings {
            ca: Some(ca),
            files: TlsFiles { ca: Some(mount.join("ca.crt")), ..TlsFiles::default() },
            ..TlsSettings::default()
        },
        token: TokenSource::file(mount.join("token")),
        basic: None,
        namespace: namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        http_version: HttpVersion::default(),
        pings: Pings::default(),
        origin: format!("service account {mount:?}"),
        offline: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    fn pod(dir: &Scratch, host: &str) -> Surroundings {
        Surroundings {
            kubeconfig: None,
            home: None,
            service_host: Some(host.into()),
            service_port: Some("6443".into()),
            service_account: dir.path().into(),
        }
    }

    #[test]
    fn a_pod_finds_its_server_token_and_namespace() {
        let dir = Scratch::new();
        dir.write("ca.crt", "pem");
        dir.write("namespace", "web\n");
        dir.write("token", "one\n");
        let config = config(&pod(&dir, "fd00::1")).unwrap();
        assert_eq!(config.server.to_string(), "https://[fd00::1]:6443");
        assert_eq!((config.namespace.as_str(), config.tls.ca.as_deref()), ("web", Some(&b"pem"[..])));
        assert_eq!(config.tls.files.ca, Some(dir.path().join("ca.crt")), "the kubelet replaces it");
        assert_eq!(config.authorization(false).unwrap().unwrap().expose(), "Bearer one");
        dir.write("token", "two\n");
        assert_eq!(config.authorization(true).unwrap().unwrap().expose(), "Bearer two");
    }

    #[test]
    fn a_pod_without_a_namespace_file_is_in_default() {
        let dir = Scratch::new();
        dir.write("ca.crt", "pem");
        assert_eq!(config(&pod(&dir, "10.0.0.1")).unwrap().namespace, "default");
    }

    #[test]
    fn what_lacks_is_named() {
        let dir = Scratch::new();
        let error = config(&pod(&dir, "10.0.0.1")).unwrap_err();
        assert_eq!(error.kind(), ConfigErrorKind::File);
        let error = error.to_string();
        assert!(error.contains("ca.crt") && error.contains("automountServiceAccountToken"), "{error}");
        let error = config(&Surroundings { service_port: None, ..pod(&dir, "10.0.0.1") }).unwrap_err();
        assert_eq!(error.kind(), ConfigErrorKind::NotFound);
        dir.write("ca.crt", "pem");
        let config = config(&pod(&dir, "10.0.0.1")).unwrap();
        let error = config.authorization(false).unwrap_err().to_string();
        assert!(error.contains("token file: cannot read"), "{error}");
        assert!(error.starts_with("service account "), "{error}");
    }
}
