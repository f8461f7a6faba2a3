//! [`Cluster`]: one etcd and kube-apiserver for all tests of this process; they take turns.
//!
//! The servers end with the process (`--owner`). Their folder stays until the next run, for a look at the logs.

use crate::http::Endpoint;
use crate::proxy::Proxy;
use informer_runtime::Config;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, id};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything here may take that is bound to happen. Generous: no test passes or fails by speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code of the scripts where something they need is not on this machine.
const NOT_HERE: i32 = 3;

/// The servers of one folder.
pub(crate) struct Cluster {
    dir: PathBuf,
}

/// The cluster, for one test at a time, with its server up; `None`, and a line about it, where there is none.
pub(crate) fn cluster() -> Option<MutexGuard<'static, Cluster>> {
    static CLUSTER: OnceLock<Option<Mutex<Cluster>>> = OnceLock::new();
    let shared = CLUSTER.get_or_init(|| Cluster::start().map(Mutex::new)).as_ref();
    let Some(shared) = shared else {
        println!("skipped: no real kube-apiserver here (peers/apiserver/build makes one)");
        return None;
    };
    // A test that failed may have left it down; what it asserted does not matter to this one.
    let cluster = shared.lock().unwrap_or_else(PoisonError::into_inner);
    cluster.heal();
    Some(cluster)
}

/// True where a missing server is a failure, and slow tests are wanted.
pub(crate) fn is_required() -> bool {
    std::env::var("INFORMER_REAL_APISERVER").is_ok_and(|value| value == "1")
}

/// True where slow tests are wanted, too; says what is skipped where they are not.
pub(crate) fn is_slow_wanted(what: &str) -> bool {
    let wanted = std::env::var("INFORMER_SLOW").is_ok_and(|value| value == "1");
    if !wanted {
        println!("skipped: {what} is slow, and only INFORMER_SLOW=1 asks for it");
    }
    wanted
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/apiserver")
}

impl Cluster {
    fn start() -> Option<Self> {
        let required = is_required();
        let absent = |why: &str| {
            assert!(!required, "INFORMER_REAL_APISERVER=1, but there is no real kube-apiserver: {why}");
            None
        };
        match Command::new(scripts().join("build")).arg("--where").output() {
            Err(error) => return absent(&error.to_string()),
            Ok(output) if !output.status.success() => return absent(&String::from_utf8_lossy(&output.stderr)),
            Ok(_) => {}
        }
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        remove_old(base);
        let cluster = Cluster { dir: base.join(format!("real-apiserver-{}", id())) };
        let output = cluster.run("start", &["--owner", &id().to_string()]);
        match output.status.code() {
            Some(0) => Some(cluster),
            Some(NOT_HERE) => absent(&String::from_utf8_lossy(&output.stderr)),
            _ => panic!("the real kube-apiserver does not start: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Output {
        let mut run = Command::new(scripts().join("run"));
        run.arg(command).arg(&self.dir).args(arguments).output().expect("peers/apiserver/run can be run")
    }

    fn must(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.run(command, arguments);
        assert!(output.status.success(), "{command} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("the script prints text")
    }

    fn heal(&self) {
        let status = self.must("status", &[]);
        let has = |wanted: &str| status.lines().any(|line| line == wanted);
        if !has("ready") || !has("certificate server") {
            if status.lines().any(|line| line.starts_with("apiserver ")) {
                self.kill();
            }
            self.start_server();
        }
    }

    /// Kills the API server: connections are reset, the port refuses.
    pub(crate) fn kill(&self) {
        self.must("stop-server", &["KILL"]);
    }

    /// Ends the API server as a deployment would: watches end cleanly, the port refuses.
    pub(crate) fn terminate(&self) {
        self.must("stop-server", &["TERM"]);
    }

    /// Brings the API server back, on its port and with its data.
    pub(crate) fn start_server(&self) {
        self.must("start-server", &[]);
    }

    /// The same, and it shows the certificate of this name (peers/apiserver/README.md has the list).
    pub(crate) fn start_server_as(&self, certificate: &str) {
        self.must("start-server", &["--certificate", certificate]);
    }

    /// Keeps a copy of etcd's data as it is now.
    pub(crate) fn snapshot(&self, name: &str) {
        self.must("snapshot", &[name]);
    }

    /// Sets etcd back to a copy, and starts both servers anew: revisions since the copy are given out again.
    pub(crate) fn restore(&self, name: &str) {
        self.must("restore", &[name]);
    }

    /// Makes the authority `name` the one that the user `ca-file` trusts.
    pub(crate) fn trust(&self, name: &str) {
        let pki = self.dir.join("pki");
        // As an agent that rotates files does it: the file is whole at every moment.
        fs::copy(pki.join(format!("{name}.crt")), pki.join("trusted.new")).expect("the authority is there");
        fs::rename(pki.join("trusted.new"), pki.join("trusted.crt")).expect("one folder");
    }

    /// Stops the API server's process where it stands: the kernel takes connections, and nothing answers.
    pub(crate) fn freeze(&self) {
        self.must("stop-server", &["STOP"]);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.must("stop-server", &["CONT"]);
    }

    /// Makes etcd forget what was before its newest revision, as it does every five minutes.
    pub(crate) fn compact(&self) {
        let ports = fs::read_to_string(self.dir.join("ports")).expect("the script wrote the ports");
        let port = ports.split_whitespace().next().expect("etcd's port comes first");
        let etcd = Endpoint(Config::from_url(&format!("http://127.0.0.1:{port}")).expect("a URL"));
        let newest = etcd.must("POST", "/v3/kv/range", r#"{"key": "AA==", "limit": "1"}"#);
        let revision = newest.pointer("/header/revision").expect("etcd names its revision").clone();
        etcd.must("POST", "/v3/kv/compaction", &format!(r#"{{"revision": {revision}, "physical": true}}"#));
    }

    /// The path of a user's kubeconfig.
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join("kubeconfig").join(user)
    }

    /// A user's configuration.
    pub(crate) fn config(&self, user: &str) -> Config {
        Config::from_kubeconfig(self.kubeconfig(user), None).unwrap_or_else(|error| panic!("{user}: {error}"))
    }

    /// The administrator's configuration, with a proxy on the way.
    pub(crate) fn config_through(&self, proxy: &Proxy) -> Config {
        let mut config = self.config("admin");
        let server = format!("https://{}", proxy.address());
        config.server = informer_runtime::config::Endpoint::parse(&server).expect("an address");
        config
    }

    /// The address of the API server.
    pub(crate) fn address(&self) -> SocketAddr {
        let server = self.config("admin").server;
        SocketAddr::new(server.host().parse().expect("the script names an address"), server.port())
    }

    /// Raw requests of a user.
    pub(crate) fn endpoint(&self, user: &str) -> Endpoint {
        Endpoint(self.config(user))
    }

    /// Raw requests of the administrator.
    pub(crate) fn admin(&self) -> Endpoint {
        self.endpoint("admin")
    }

    /// An empty namespace for one test.
    pub(crate) fn namespace(&self, name: &str) -> String {
        let body = format!(r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#);
        let answer = self.admin().ask("POST", "/api/v1/namespaces", &body);
        assert!(matches!(answer.status, 201 | 409), "{name}: {} {}", answer.status, answer.body);
        name.to_string()
    }
}

/// Waits until something holds that is bound to come true, and says what did not.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) if Instant::now() >= until => panic!("not within {PATIENCE:?}: {what}: {why}"),
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
}

/// Removes the folders of processes that are gone, and what still runs in them.
fn remove_old(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix("real-apiserver-"));
        let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else { continue };
        let alive = Command::new("kill").args(["-0", &owner.to_string()]).output();
        if alive.is_ok_and(|output| !output.status.success()) {
            // Its servers may run for another second: they are found by the files in the folder, so they end first.
            let cluster = Cluster { dir: entry.path() };
            if cluster.run("stop", &[]).status.success() {
                // Another run that does the same is as welcome to do it.
                drop(fs::remove_dir_all(&cluster.dir));
            }
        }
    }
}
