//! Proxies that the environment asks for: this version goes to the server directly, and says so.
//!
//! The variables and their rules are those that client-go obeys, which are Go's: `HTTPS_PROXY` for an https server and
//! `HTTP_PROXY` for an http one, in capitals or not; `NO_PROXY` names those that are reached directly, as does everything
//! on this machine. The address of a proxy may hold a password, and is never repeated.

use super::Endpoint;
use std::net::IpAddr;

/// What is to be told of a server, if a program that obeys these variables would ask a proxy for it.
pub(super) fn ignored(server: &Endpoint, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (upper, lower) = if server.is_tls() { ("HTTPS_PROXY", "https_proxy") } else { ("HTTP_PROXY", "http_proxy") };
    let set = |name: &&str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let name = [upper, lower].into_iter().find(set)?;
    let direct = ["NO_PROXY", "no_proxy"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    if is_here(server) || direct.is_some_and(|list| list.split(',').any(|entry| covers(entry.trim(), server))) {
        return None;
    }
    Some(format!(
        "{name} is set, and proxies are not supported yet: requests go to {server} directly. If it cannot be reached so, give \
         the address of a tunnel or of `kubectl proxy`; if it can, name it in NO_PROXY"
    ))
}

fn is_here(server: &Endpoint) -> bool {
    let loopback = server.host().parse().is_ok_and(|address: IpAddr| address.is_loopback());
    loopback || server.host() == "localhost" || server.unix_socket().is_some()
}

/// True if an entry of `NO_PROXY` means this server: `*`, a name and all below it, `.name` for those below it, an
/// address, a network; each but the first and the last with a port, if it means one.
fn covers(entry: &str, server: &Endpoint) -> bool {
    let (host, address) = (server.host(), server.host().parse::<IpAddr>().ok());
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = entry.split_once('/') {
        let (Ok(network), Ok(bits), Some(address)) = (network.parse(), bits.parse(), address) else { return false };
        return is_in(address, network, bits);
    }
    if let Ok(whole) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(whole);
    }
    let (name, port) = entry.rsplit_once(':').map_or((entry, None), |(name, port)| (name, Some(port)));
    if port.is_some_and(|port| port.parse() != Ok(server.port())) {
        return false;
    }
    if let Ok(listed) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(listed);
    }
    let name = name.trim_start_matches("*").to_ascii_lowercase();
    let below = |suffix: &str| host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    match name.strip_prefix('.') {
        Some(suffix) => !suffix.is_empty() && below(suffix),
        None => !name.is_empty() && (host == name || below(&name)),
    }
}

fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let same = |a: u128, b: u128, width: u32| bits <= width && (bits == 0 || (a ^ b) >> (width - bits) == 0);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        ignored(&Endpoint::parse(server).unwrap(), value)
    }

    const PROXY: (&str, &str) = ("HTTPS_PROXY", "http://user:MARKED@proxy:3128");

    #[test]
    fn a_proxy_that_is_passed_over_is_named_without_its_password() {
        let line = told("https://api.example.com:6443", &[PROXY]).unwrap();
        assert!(line.starts_with("HTTPS_PROXY is set, and proxies are not supported yet: "), "{line}");
        assert!(line.contains("https://api.example.com:6443 directly") && !line.contains("MARKED"), "{line}");
        assert!(told("https://api", &[("https_proxy", "http://p")]).unwrap().starts_with("https_proxy is set"));
        assert!(told("http://api", &[("HTTP_PROXY", "http://p")]).is_some());
        for (server, variables) in [
            ("https://api", &[("HTTP_PROXY", "http://p")][..]),
            ("http://api", &[PROXY]),
            ("https://api", &[("HTTPS_PROXY", " ")]),
            ("https://api", &[]),
            ("https://localhost:6443", &[PROXY]),
            ("https://127.0.0.1:6443", &[PROXY]),
            ("https://[::1]:6443", &[PROXY]),
        ] {
            assert_eq!(told(server, variables), None, "{server} {variables:?}");
        }
    }

    #[test]
    fn what_no_proxy_names_is_reached_directly() {
        let is_told = |server: &str, list: &str| told(server, &[PROXY, ("no_proxy", list)]).is_some();
        for (server, list) in [
            ("https://api.example.com", "*"),
            ("https://api.example.com", "other, example.com"),
            ("https://api.example.com", ".example.com"),
            ("https://api.example.com", "*.example.com"),
            ("https://api.example.com", "API.example.com:443"),
            ("https://10.1.2.3", "10.0.0.0/8"),
            ("https://10.1.2.3", "10.1.2.3"),
            ("https://10.1.2.3:6443", "10.1.2.3:6443"),
            ("https://10.1.2.3", "0.0.0.0/0"),
            ("https://[fd00::1]", "fd00::/8"),
            ("https://[fd00::1]", "fd00::1"),
            ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ] {
            assert!(!is_told(server, list), "{server} {list}");
        }
        for (server, list) in [
            ("https://api.example.com", "ple.com"),
            ("https://example.com", ".example.com"),
            ("https://api.example.com", "api.example.com:6443"),
            ("https://11.1.2.3", "10.0.0.0/8"),
            ("https://10.1.2.3", "10.1.2.3/99"),
            ("https://10.1.2.3", "fd00::/8"),
            ("https://10.1.2.3", ""),
            ("https://10.1.2.3", ",,"),
        ] {
            assert!(is_told(server, list), "{server} {list}");
        }
    }
}
