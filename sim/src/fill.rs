//! Many realistic objects, and their constant change: what a large cluster looks like to a client.
//!
//! ```
//! use informer_core::time::{Duration, Time};
//! use informer_sim::{Churn, Config, Fill, Server};
//!
//! let mut server = Server::new(Config::default());
//! server.register_common();
//! let fill: Fill = "pods=300:6900".parse().unwrap();
//! let pods = fill.apply(&mut server, 7).unwrap();
//! assert_eq!(server.count(&pods), 300);
//!
//! // Ten changes a second, for a second of virtual time.
//! let mut churn = Churn::new(&server, &pods, 10, 7);
//! let before = server.version();
//! churn.advance(&mut server, Time::ZERO + Duration::from_secs(1));
//! assert_eq!(server.version() - before, 10);
//! ```

use crate::server::Server;
use crate::status::Status;
use informer_core::object::{Key, Resource};
use informer_core::rng::Rng;
use informer_core::time::{Duration, Time};
use std::fmt::{self, Write};
use std::str::FromStr;

/// Namespaces that objects are spread over, as in the cluster that the measurements are about.
const NAMESPACES: usize = 200;

/// Nodes that Pods are spread over.
const NODES: u64 = 5_000;

/// Values of the label `app`.
const APPS: [&str; 12] = [
    "api", "auth", "billing", "cart", "catalog", "checkout", "frontend", "gateway", "ingest", "mailer", "search",
    "worker",
];

/// How many objects of which resource, and how large; reads `pods=100000:6900`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The resource, by its plural or `plural.group`.
    pub resource: String,
    /// How many.
    pub count: usize,
    /// JSON bytes of one object, about. An object has at least what its kind needs: some 3 KiB for a Pod.
    pub bytes: usize,
}

/// The most that one fill may make: a server holds its objects in memory, and a slip of the finger must not take all of
/// a machine's. An object costs at least about 1 KiB beside its own bytes.
pub const MAX_FILL: usize = 16 << 30;

impl FromStr for Fill {
    type Err = FillError;

    fn from_str(text: &str) -> Result<Self, FillError> {
        let error = || FillError(format!("{text:?} is no RESOURCE=COUNT:BYTES, as in pods=100000:6900"));
        let (resource, size) = text.split_once('=').ok_or_else(error)?;
        let (count, bytes) = size.split_once(':').ok_or_else(error)?;
        let (Ok(count), Ok(bytes), false) = (count.parse(), bytes.parse(), resource.is_empty()) else {
            return Err(error());
        };
        let fill = Fill { resource: resource.into(), count, bytes };
        if fill.bytes.saturating_add(1024).saturating_mul(fill.count) > MAX_FILL {
            return Err(FillError(format!(
                "{text:?} would take more than {} GiB of memory: make fewer or smaller objects",
                MAX_FILL >> 30
            )));
        }
        Ok(fill)
    }
}

/// Why a server could not be filled.
#[derive(Clone, PartialEq, Eq)]
pub struct FillError(String);

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FillError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for FillError {}

impl Fill {
    /// Makes the objects; equal seeds make equal ones. Answers the resource.
    ///
    /// # Errors
    ///
    /// If the server does not serve the resource, or refuses an object.
    pub fn apply(&self, server: &mut Server, seed: u64) -> Result<Resource, FillError> {
        let name = &self.resource;
        let resource = server
            .resources()
            .find(|resource| resource.to_string() == *name)
            .or_else(|| server.resources().find(|resource| resource.plural == name.as_str()))
            .cloned()
            .ok_or_else(|| {
                let served: Vec<String> = server.resources().map(ToString::to_string).collect();
                FillError(format!("{name:?} is not served; served are {}", served.join(", ")))
            })?;
        let mut rng = Rng::derive(seed, name);
        for number in 0..self.count {
            let json = object(&resource, server.is_custom(&resource), number, self.bytes, &mut rng);
            server
                .put(&resource, &json)
                .map_err(|status: Status| FillError(format!("object {number} of {resource} was refused: {status}")))?;
        }
        Ok(resource)
    }
}

/// The object with this number; its name and namespace follow from the number alone.
fn object(resource: &Resource, custom: bool, number: usize, bytes: usize, rng: &mut Rng) -> String {
    let app = APPS[rng.below(APPS.len() as u64) as usize];
    let name = format!("{}-{number:06}", resource.kind.to_lowercase());
    let mut metadata = format!(r#""name":"{name}""#);
    if resource.namespaced {
        write!(metadata, r#","namespace":"ns-{}""#, number % NAMESPACES).expect("a string takes all");
    }
    let hash = rng.below(1 << 36);
    let pod = resource.group.is_empty() && resource.plural == "pods";
    write!(
        metadata,
        r#","labels":{{"app":"{app}","app.kubernetes.io/name":"{app}","app.kubernetes.io/managed-by":"Helm","pod-template-hash":"{hash:09x}"}}"#
    )
    .expect("a string takes all");
    let body = match (pod, custom) {
        (true, _) => pod_body(app, &name, rng),
        (false, true) => format!(r#""spec":{{"app":"{app}","size":{}}}"#, number % 10),
        (false, false) => format!(r#""data":{{"app":"{app}","number":"{number}"}}"#),
    };
    let managed = if pod { pod_managed_fields() } else { plain_managed_fields() };
    // The padding is random letters, as hashes and certificates are: it must not compress to nothing.
    let rest = metadata.len() + body.len() + managed.len() + 330;
    let padding: String =
        (rest..bytes).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz012345"[rng.below(32) as usize])).collect();
    format!(
        r#"{{"apiVersion":"{}","kind":"{}","metadata":{{{metadata},"annotations":{{"checksum/config":"{hash:064x}","example.com/padding":"{padding}"}},{managed}}},{body}}}"#,
        resource.api_version(),
        resource.kind
    )
}

fn plain_managed_fields() -> String {
    r#""managedFields":[{"manager":"helm","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:app":{},"f:number":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]"#.into()
}

fn pod_managed_fields() -> String {
    let container = |name: &str| {
        format!(
            r#""k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:env":{{".":{{}},"k:{{\"name\":\"LOG_LEVEL\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}},"k:{{\"name\":\"POD_IP\"}}":{{".":{{}},"f:name":{{}},"f:valueFrom":{{".":{{}},"f:fieldRef":{{}}}}}}}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:livenessProbe":{{".":{{}},"f:failureThreshold":{{}},"f:httpGet":{{".":{{}},"f:path":{{}},"f:port":{{}},"f:scheme":{{}}}},"f:periodSeconds":{{}}}},"f:name":{{}},"f:ports":{{".":{{}},"k:{{\"containerPort\":8080,\"protocol\":\"TCP\"}}":{{".":{{}},"f:containerPort":{{}},"f:protocol":{{}}}}}},"f:resources":{{".":{{}},"f:limits":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}},"f:requests":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}}}},"f:volumeMounts":{{".":{{}},"k:{{\"mountPath\":\"/etc/config\"}}":{{".":{{}},"f:mountPath":{{}},"f:name":{{}}}}}}}}"#
        )
    };
    format!(
        r#""managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}}}},"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/managed-by":{{}},"f:app.kubernetes.io/name":{{}},"f:pod-template-hash":{{}}}}}},"f:spec":{{"f:containers":{{{}}},"f:dnsPolicy":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:terminationGracePeriodSeconds":{{}},"f:volumes":{{".":{{}},"k:{{\"name\":\"config\"}}":{{".":{{}},"f:configMap":{{".":{{}},"f:defaultMode":{{}},"f:name":{{}}}},"f:name":{{}}}}}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:07Z","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"ContainersReady\"}}":{{".":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}},"f:startTime":{{}}}}}},"subresource":"status"}}]"#,
        container("main")
    )
}

fn pod_body(app: &str, name: &str, rng: &mut Rng) -> String {
    let node = rng.below(NODES);
    let ip = format!("10.{}.{}.{}", rng.below(256), rng.below(256), 1 + rng.below(254));
    let image = format!("registry.example.com/shop/{app}:1.{}.{}", rng.below(40), rng.below(10));
    let digest = format!("{:016x}{:016x}{:016x}{:016x}", rng.next(), rng.next(), rng.next(), rng.next());
    let phase = match rng.below(100) {
        0..2 => "Pending",
        2..4 => "Succeeded",
        4 => "Failed",
        _ => "Running",
    };
    let ready = if phase == "Running" { "True" } else { "False" };
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| {
            format!(
                r#"{{"type":"{kind}","status":"{ready}","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:07Z"}}"#
            )
        })
        .join(",");
    format!(
        r#""spec":{{"volumes":[{{"name":"config","configMap":{{"name":"{app}-config","defaultMode":420}}}},{{"name":"kube-api-access","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}],"defaultMode":420}}}}],"containers":[{{"name":"main","image":"{image}","args":["--listen=:8080","--config=/etc/config/{app}.yaml"],"ports":[{{"containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"LOG_LEVEL","value":"info"}},{{"name":"POD_IP","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"status.podIP"}}}}}}],"resources":{{"limits":{{"cpu":"500m","memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"256Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/config"}},{{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{app}","nodeName":"node-{node}","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"{phase}","conditions":[{conditions}],"hostIP":"10.0.{}.{}","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{{"name":"main","state":{{"running":{{"startedAt":"2026-01-01T00:00:05Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"{image}","imageID":"registry.example.com/shop/{app}@sha256:{digest}","containerID":"containerd://{name}-{digest}","started":true}}],"qosClass":"Burstable"}}"#,
        node / 256,
        node % 256
    )
}

/// Changes random objects of one resource at a steady rate in virtual time: a label, an annotation or the status.
#[derive(Clone, Debug)]
pub struct Churn {
    resource: Resource,
    keys: Vec<Key>,
    every: Option<Duration>,
    next: Time,
    rng: Rng,
    done: u64,
}

impl Churn {
    /// Changes the objects that `server` has of `resource` now, `per_second` times a second; 0 is never.
    pub fn new(server: &Server, resource: &Resource, per_second: u32, seed: u64) -> Self {
        let keys: Vec<Key> = server.list(resource).iter().map(|object| object.key().clone()).collect();
        let every = Duration::from_secs(1).checked_div(per_second).filter(|_| !keys.is_empty());
        let next = server.now() + every.unwrap_or_default();
        Churn { resource: resource.clone(), keys, every, next, rng: Rng::derive(seed, "churn"), done: 0 }
    }

    /// When the next change is due; `None` if there will be none.
    pub fn next(&self) -> Option<Time> {
        self.every.map(|_| self.next)
    }

    /// Makes every change that is due at `now`, each at its own time, and answers how many there were. Objects that are
    /// gone meanwhile are passed over.
    pub fn advance(&mut self, server: &mut Server, now: Time) -> usize {
        let Some(every) = self.every else { return 0 };
        let mut count = 0;
        while self.next <= now {
            server.handle(self.next, crate::Input::Tick);
            count += usize::from(self.change(server));
            self.next = self.next + every;
        }
        count
    }

    fn change(&mut self, server: &mut Server) -> bool {
        let key = &self.keys[self.rng.below(self.keys.len() as u64) as usize];
        self.done += 1;
        let done = self.done;
        let patch = match self.rng.below(3) {
            0 => format!(r#"{{"metadata":{{"labels":{{"churn":"{}"}}}}}}"#, done),
            1 => format!(r#"{{"metadata":{{"annotations":{{"example.com/churn":"{done}"}}}}}}"#),
            _ => format!(r#"{{"status":{{"observedGeneration":{done}}}}}"#),
        };
        let Some(old) = server.get(&self.resource, key) else { return false };
        let json = crate::text::merge(old.json(), &patch).expect("both texts are JSON and flat enough");
        server.put(&self.resource, &json).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn filled(text: &str, seed: u64) -> (Server, Resource) {
        let mut server = Server::new(Config::default());
        server.register_common();
        let resource = text.parse::<Fill>().unwrap().apply(&mut server, seed).unwrap();
        (server, resource)
    }

    #[test]
    fn a_fill_that_no_machine_holds_is_refused() {
        let error = "pods=99999999999:1".parse::<Fill>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"pods=99999999999:1\" would take more than 16 GiB of memory: make fewer or smaller objects"
        );
        assert!("pods=1000000:6900".parse::<Fill>().is_ok());
    }

    #[test]
    fn pods_have_the_size_and_the_parts_that_were_asked_for() {
        let (server, pods) = filled("pods=400:6900", 7);
        let all = server.list(&pods);
        assert_eq!(all.len(), 400);
        let bytes: usize = all.iter().map(|object| object.json().len()).sum();
        assert!((6_850..6_950).contains(&(bytes / 400)), "{}", bytes / 400);
        let pod: serde_json::Value = serde_json::from_str(all[0].json()).unwrap();
        assert!(pod["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"].is_object());
        assert!(pod["spec"]["nodeName"].as_str().unwrap().starts_with("node-"));
        assert!(pod["status"]["conditions"].as_array().unwrap().len() == 5);
        assert!(APPS.contains(&all[0].label("app").unwrap()));
        let managed = pod["metadata"]["managedFields"].to_string().len();
        assert!((1_500..2_600).contains(&managed), "{managed}");
    }

    #[test]
    fn equal_seeds_make_equal_objects() {
        let texts = |seed| {
            let (server, pods) = filled("pods=20:4000", seed);
            server.list(&pods).iter().map(|object| object.json().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
    }

    #[test]
    fn other_resources_are_filled_too() {
        for text in ["configmaps=10:900", "deployments.apps=10:900", "nodes=10:900"] {
            let (server, resource) = filled(text, 7);
            let all = server.list(&resource);
            assert_eq!(all.len(), 10);
            assert!((800..1_000).contains(&all[0].json().len()), "{text}: {}", all[0].json().len());
        }
    }

    #[test]
    fn custom_resources_are_filled_with_a_spec() {
        let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
        let mut server = Server::new(Config::default());
        server.register(widgets.clone(), crate::Options { custom: true, status_subresource: true });
        assert_eq!("widgets.example.com=12:900".parse::<Fill>().unwrap().apply(&mut server, 7).unwrap(), widgets);
        let key = Key::new("ns-11", "widget-000011");
        let widget: serde_json::Value = serde_json::from_str(server.get(&widgets, &key).unwrap().json()).unwrap();
        assert_eq!((widget["spec"]["size"].as_u64(), widget["metadata"]["generation"].as_u64()), (Some(1), Some(1)));
    }

    #[test]
    fn a_bad_fill_says_what_is_wrong() {
        let error = "pods=x:3".parse::<Fill>().unwrap_err().to_string();
        assert_eq!(error, "\"pods=x:3\" is no RESOURCE=COUNT:BYTES, as in pods=100000:6900");
        let fill = Fill { resource: "ponies".into(), count: 1, bytes: 1 };
        let error = fill.apply(&mut Server::new(Config::default()), 1).unwrap_err().to_string();
        assert_eq!(error, "\"ponies\" is not served; served are customresourcedefinitions.apiextensions.k8s.io");
    }

    #[test]
    fn churn_keeps_its_rate_and_touches_only_what_it_should() {
        let (mut server, pods) = filled("pods=50:4000", 7);
        let mut churn = Churn::new(&server, &pods, 4, 3);
        assert_eq!(churn.next(), Some(Time::from_millis(250)));
        let before = server.version();
        assert_eq!(churn.advance(&mut server, Time::from_millis(249)), 0);
        assert_eq!(churn.advance(&mut server, Time::from_millis(5_000)), 20);
        assert_eq!(server.version(), before + 20);
        assert_eq!(server.count(&pods), 50);
        let generations = server.list(&pods).iter().filter(|pod| !pod.json().contains(r#""generation":1,"#)).count();
        assert_eq!(generations, 0);
    }

    #[test]
    fn no_rate_and_no_objects_mean_no_change() {
        let (server, pods) = filled("pods=5:4000", 7);
        assert_eq!(Churn::new(&server, &pods, 0, 3).next(), None);
        let mut server = Server::new(Config::default());
        server.register_common();
        assert_eq!(Churn::new(&server, &pods, 9, 3).advance(&mut server, Time::from_millis(9_000)), 0);
    }
}
