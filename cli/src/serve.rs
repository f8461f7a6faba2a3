//! `informer serve`: the simulated API server on a loopback port.

use crate::{Refusal, exit};
use clap::Args;
use informer_core::Resource;
use informer_sim::fill::{Churn, Fill};
use informer_sim::serve::Served;
use informer_sim::{Config, Options as SimOptions, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Options {
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Fill a resource with N objects of about BYTES bytes, as in pods=1000:6900; may stand several times
    #[arg(long = "resource", value_name = "RESOURCE=N:BYTES")]
    resources: Vec<Fill>,
    /// Serve a custom resource as well, as in widgets.v1.example.com=Widget; may stand several times
    #[arg(long = "custom", value_name = "PLURAL.VERSION.GROUP=KIND", value_parser = custom)]
    customs: Vec<Resource>,
    /// Write a kubeconfig that names this server, for programs that read $KUBECONFIG; never over one of your own
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Update so many random objects of each filled resource per second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 0)]
    churn: u32,
    /// What the objects look like and which ones change
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Reads `widgets.v1.example.com=Widget`.
fn custom(text: &str) -> Result<Resource, String> {
    let error = || format!("{text:?} is no PLURAL.VERSION.GROUP=KIND, as in widgets.v1.example.com=Widget");
    let (name, kind) = text.split_once('=').ok_or_else(error)?;
    let resource: Resource = name.parse().map_err(|_| error())?;
    if kind.is_empty() || !resource.kind.is_empty() || resource.group.is_empty() {
        return Err(error());
    }
    Ok(Resource::dynamic(&resource.group, &resource.version, &resource.plural, kind, true))
}

/// The first line of a kubeconfig that may be written over.
const OURS: &str = "# written by `informer serve`\n";

/// Writes a kubeconfig, never over somebody's own.
fn write_kubeconfig(path: &Path, url: &str) -> Result<(), Refusal> {
    let place = |error| format!("{}: {error}", path.display());
    match fs::read(path) {
        Ok(old) if !old.starts_with(OURS.as_bytes()) => {
            return Err(format!("{}: is there already, and not from here; name another file", path.display()).into());
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(place(error).into()),
        Ok(_) | Err(_) => {}
    }
    Ok(fs::write(path, kubeconfig(url)).map_err(place)?)
}

/// A kubeconfig of one cluster without credentials.
fn kubeconfig(url: &str) -> String {
    format!(
        "{OURS}apiVersion: v1\nkind: Config\ncurrent-context: sim\nclusters:\n- name: sim\n  cluster: {{server: \"{url}\"}}\n\
         users:\n- name: sim\n  user: {{}}\ncontexts:\n- name: sim\n  context: {{cluster: sim, user: sim}}\n"
    )
}

pub(crate) fn run(options: Options) -> Result<u8, Refusal> {
    let mut server = Server::new(Config { seed: options.seed, ..Config::default() });
    server.register_common();
    for resource in &options.customs {
        if server.resources().any(|served| served == resource) {
            return Err(format!("--custom {resource} stands twice; name it once").into());
        }
        server.register(resource.clone(), SimOptions { custom: true, status_subresource: true });
    }
    let mut filled = Vec::new();
    for fill in &options.resources {
        filled.push(fill.apply(&mut server, options.seed)?);
    }
    // Not before: a signal ends a fill that takes too long, or more memory than there is, as it ends any process.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let churns: Vec<_> = filled
        .iter()
        .filter(|_| options.churn > 0)
        .map(|resource| Churn::new(&server, resource, options.churn, options.seed))
        .collect();
    let mut served = Served::start(server, SocketAddr::from((Ipv4Addr::LOCALHOST, options.port)))?;
    for churn in churns {
        served.churn(churn);
    }
    if let Some(path) = &options.write_kubeconfig {
        write_kubeconfig(path, &served.url())?;
    }
    let mut out = io::stdout();
    writeln!(out, "listening on {}", served.url()).and_then(|()| out.flush())?;
    signals.forever().next();
    served.stop();
    Ok(exit::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_runtime::Config;

    #[test]
    fn a_custom_resource_is_named_with_its_version_and_kind() {
        let widgets = custom("widgets.v1.example.com=Widget").unwrap();
        assert_eq!(widgets, Resource::namespaced("example.com", "v1", "widgets", "Widget"));
        for bad in
            ["widgets", "widgets.example.com=Widget", "widgets.v1.example.com=", "pods=Pod", "deployments.apps=X"]
        {
            let error = custom(bad).unwrap_err();
            assert!(error.ends_with("is no PLURAL.VERSION.GROUP=KIND, as in widgets.v1.example.com=Widget"), "{error}");
        }
    }

    #[test]
    fn the_kubeconfig_that_is_written_names_the_server() {
        let path = std::env::temp_dir().join(format!("informer-serve-{}.yaml", std::process::id()));
        write_kubeconfig(&path, "http://127.0.0.1:4710").unwrap();
        let again = write_kubeconfig(&path, "http://127.0.0.1:4711");
        let config = Config::from_kubeconfig(&path, None);
        fs::write(&path, "kind: Config").unwrap();
        let refused = write_kubeconfig(&path, "http://127.0.0.1:4712").unwrap_err().to_string();
        let kept = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        again.unwrap();
        assert_eq!(config.unwrap().server.to_string(), "http://127.0.0.1:4711");
        assert_eq!(refused, format!("{}: is there already, and not from here; name another file", path.display()));
        assert_eq!(kept, "kind: Config");
    }
}
