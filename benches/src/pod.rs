//! [`Pod`]: a Pod as a cluster has them, about 6.9 KB of JSON, `managedFields` included.
//!
//! The struct holds every field that the samples have, so decoding it costs what a generated type would cost. Its
//! fields stand in the order in which the API server writes them.

use crate::{Sample, uid};
use informer_core::Key;
use informer_core::object::{Meta, Object, OwnerRef, OwnerReference, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

type Texts = BTreeMap<String, String>;

/// A Pod of a Deployment: two containers, probes, a projected token, and the fields that two managers own.
#[derive(Debug, Deserialize, Serialize)]
pub struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

/// Metadata with `managedFields`, which the core's own type passes over.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    name: String,
    generate_name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    generation: Option<i64>,
    creation_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: Texts,
    #[serde(default)]
    annotations: Texts,
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[serde(default)]
    managed_fields: Vec<ManagedFields>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFields {
    manager: String,
    operation: String,
    api_version: String,
    time: String,
    fields_type: String,
    #[serde(rename = "fieldsV1")]
    fields_v1: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    volumes: Vec<Volume>,
    containers: Vec<Container>,
    restart_policy: String,
    termination_grace_period_seconds: i64,
    dns_policy: String,
    service_account_name: String,
    service_account: String,
    node_name: String,
    security_context: SecurityContext,
    scheduler_name: String,
    tolerations: Vec<Toleration>,
    priority: i32,
    enable_service_links: bool,
    preemption_policy: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_map: Option<ConfigMapSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projected: Option<Projected>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMapSource {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_mode: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<PathItem>,
}

#[derive(Debug, Deserialize, Serialize)]
struct PathItem {
    key: String,
    path: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Projected {
    sources: Vec<Source>,
    default_mode: i32,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account_token: Option<TokenSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_map: Option<ConfigMapSource>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenSource {
    expiration_seconds: i64,
    path: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    image: String,
    args: Vec<String>,
    ports: Vec<Port>,
    env: Vec<EnvVar>,
    resources: Resources,
    volume_mounts: Vec<Mount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    liveness_probe: Option<Probe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readiness_probe: Option<Probe>,
    termination_message_path: String,
    termination_message_policy: String,
    image_pull_policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_context: Option<SecurityContext>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    name: String,
    container_port: i32,
    protocol: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct EnvVar {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_from: Option<ValueFrom>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom {
    field_ref: FieldRef,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct FieldRef {
    api_version: String,
    field_path: String,
}

#[derive(Debug, Deserialize, Serialize)]
struct Resources {
    limits: Texts,
    requests: Texts,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    name: String,
    read_only: bool,
    mount_path: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Probe {
    http_get: HttpGet,
    timeout_seconds: i32,
    period_seconds: i32,
    success_threshold: i32,
    failure_threshold: i32,
}

#[derive(Debug, Deserialize, Serialize)]
struct HttpGet {
    path: String,
    /// A number or the name of a port.
    port: Value,
    scheme: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct SecurityContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    run_as_user: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_as_non_root: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_only_root_filesystem: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_privilege_escalation: Option<bool>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Toleration {
    key: String,
    operator: String,
    effect: String,
    toleration_seconds: i64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
    #[serde(rename = "hostIP")]
    host_ip: String,
    #[serde(rename = "hostIPs")]
    host_ips: Vec<Ip>,
    #[serde(rename = "podIP")]
    pod_ip: String,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<Ip>,
    start_time: String,
    container_statuses: Vec<ContainerStatus>,
    qos_class: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_probe_time: Option<String>,
    last_transition_time: String,
}

#[derive(Debug, Deserialize, Serialize)]
struct Ip {
    ip: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    state: RunState,
    last_state: RunState,
    ready: bool,
    restart_count: u64,
    image: String,
    #[serde(rename = "imageID")]
    image_id: String,
    #[serde(rename = "containerID")]
    container_id: String,
    started: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct RunState {
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Running>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Running {
    started_at: String,
}

impl Pod {
    /// Namespace and name.
    pub fn key(&self) -> Key {
        Key::new(&self.metadata.namespace, &self.metadata.name)
    }

    /// The node that it runs on: one of 200.
    pub fn node(&self) -> &str {
        &self.spec.node_name
    }

    /// The sum of its restarts; the version of the sample is in it.
    pub fn restarts(&self) -> u64 {
        self.status.container_statuses.iter().map(|container| container.restart_count).sum()
    }
}

impl Object for Pod {
    type Meta = Metadata;

    fn resource() -> Resource {
        Resource::namespaced("", "v1", "pods", "Pod")
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Meta for Metadata {
    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(String::as_str)
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.owner_references.iter().map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller.unwrap_or(false),
        })
    }
}

impl Sample for Pod {
    fn sample(n: u64, version: u64) -> Self {
        let app = format!("app-{}", n % 100);
        let set = format!("{app}-{:010x}", 0x5_b8f0_c2d1 + n % 100);
        let containers = [("main", 8080), ("proxy", 15021)];
        Pod {
            metadata: metadata(n, version, &app, &set),
            spec: Spec {
                volumes: volumes(),
                containers: containers.iter().map(|(name, port)| container(name, *port, &app)).collect(),
                restart_policy: "Always".into(),
                termination_grace_period_seconds: 30,
                dns_policy: "ClusterFirst".into(),
                service_account_name: app.clone(),
                service_account: app.clone(),
                node_name: format!("node-{:03}.eu-west-1.compute.internal", n % 200),
                security_context: SecurityContext { run_as_non_root: Some(true), ..SecurityContext::default() },
                scheduler_name: "default-scheduler".into(),
                tolerations: ["not-ready", "unreachable"].map(toleration).into(),
                priority: 0,
                enable_service_links: true,
                preemption_policy: "PreemptLowerPriority".into(),
            },
            status: status(n, version, &containers.map(|(name, _)| name)),
        }
    }
}

const MADE: &str = "2025-11-03T09:12:44Z";
const READY: &str = "2025-11-03T09:12:51Z";

fn texts(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn metadata(n: u64, version: u64, app: &str, set: &str) -> Metadata {
    Metadata {
        name: format!("{set}-{n:05}"),
        generate_name: format!("{set}-"),
        namespace: format!("team-{:02}", n % 50),
        uid: uid(n),
        resource_version: (1_000_000 + version).to_string(),
        generation: Some(1),
        creation_timestamp: MADE.into(),
        deletion_timestamp: None,
        labels: texts(&[
            ("app.kubernetes.io/name", app),
            ("app.kubernetes.io/part-of", "shop"),
            ("pod-template-hash", &set[set.len() - 10..]),
            ("tier", if n % 4 == 0 { "front" } else { "back" }),
        ]),
        annotations: texts(&[
            ("checksum/config", "0f343b0931126a20f133d67c2b018a3b5c1e1a6d9f7c2e4b8a0d5f6c7b8a9e0d"),
            ("prometheus.io/port", "9090"),
            ("prometheus.io/scrape", "true"),
        ]),
        owner_references: vec![OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: set.into(),
            uid: uid(n % 100),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }],
        finalizers: Vec::new(),
        managed_fields: vec![
            ManagedFields {
                manager: "kube-controller-manager".into(),
                operation: "Update".into(),
                api_version: "v1".into(),
                time: MADE.into(),
                fields_type: "FieldsV1".into(),
                fields_v1: fields_of_the_controller(n),
                subresource: None,
            },
            ManagedFields {
                manager: "kubelet".into(),
                operation: "Update".into(),
                api_version: "v1".into(),
                time: READY.into(),
                fields_type: "FieldsV1".into(),
                fields_v1: fields_of_the_kubelet(),
                subresource: Some("status".into()),
            },
        ],
    }
}

/// A set of owned fields: each name with an empty set below it.
fn fields(names: &[&str]) -> Map<String, Value> {
    names.iter().map(|name| (name.to_string(), json!({}))).collect()
}

fn fields_of_the_controller(n: u64) -> Value {
    let container = |port: u16| {
        let mut owned = fields(&[
            ".",
            "f:args",
            "f:image",
            "f:imagePullPolicy",
            "f:name",
            "f:terminationMessagePath",
            "f:terminationMessagePolicy",
        ]);
        let port = format!("k:{{\"containerPort\":{port},\"protocol\":\"TCP\"}}");
        owned.insert("f:ports".into(), json!({".": {}, port: fields(&[".", "f:containerPort", "f:name"])}));
        owned
    };
    let owner = format!("k:{{\"uid\":\"{}\"}}", uid(n % 100));
    let spec = ["f:dnsPolicy", "f:enableServiceLinks", "f:restartPolicy", "f:schedulerName", "f:serviceAccountName"];
    let mut spec = fields(&spec);
    spec.insert(
        "f:containers".into(),
        json!({r#"k:{"name":"main"}"#: container(8080), r#"k:{"name":"proxy"}"#: container(15021)}),
    );
    json!({
        "f:metadata": {
            "f:generateName": {},
            "f:labels": fields(&[".", "f:app.kubernetes.io/name", "f:pod-template-hash", "f:tier"]),
            "f:ownerReferences": {".": {}, owner: {}},
        },
        "f:spec": spec,
    })
}

fn fields_of_the_kubelet() -> Value {
    let condition = fields(&[".", "f:lastProbeTime", "f:lastTransitionTime", "f:status", "f:type"]);
    let mut conditions = Map::new();
    for kind in ["ContainersReady", "Initialized", "Ready"] {
        conditions.insert(format!("k:{{\"type\":\"{kind}\"}}"), Value::Object(condition.clone()));
    }
    json!({"f:status": {
        "f:conditions": conditions,
        "f:containerStatuses": {},
        "f:hostIP": {},
        "f:phase": {},
        "f:podIP": {},
        "f:podIPs": {".": {}, "k:{\"ip\":\"10.0.0.1\"}": fields(&[".", "f:ip"])},
        "f:startTime": {},
    }})
}

fn volumes() -> Vec<Volume> {
    let config = ConfigMapSource { name: "settings".into(), default_mode: Some(420), items: Vec::new() };
    let token = TokenSource { expiration_seconds: 3607, path: "token".into() };
    let items = vec![PathItem { key: "ca.crt".into(), path: "ca.crt".into() }];
    let authority = ConfigMapSource { name: "kube-root-ca.crt".into(), default_mode: None, items };
    let sources = vec![
        Source { service_account_token: Some(token), ..Source::default() },
        Source { config_map: Some(authority), ..Source::default() },
    ];
    vec![
        Volume { name: "config".into(), config_map: Some(config), ..Volume::default() },
        Volume {
            name: "kube-api-access-x7k2p".into(),
            projected: Some(Projected { sources, default_mode: 420 }),
            ..Volume::default()
        },
    ]
}

fn container(name: &str, port: i32, app: &str) -> Container {
    let probe = |path: &str| Probe {
        http_get: HttpGet { path: path.into(), port: port.into(), scheme: "HTTP".into() },
        timeout_seconds: 1,
        period_seconds: 10,
        success_threshold: 1,
        failure_threshold: 3,
    };
    let field = |name: &str, path: &str| EnvVar {
        name: name.into(),
        value: None,
        value_from: Some(ValueFrom { field_ref: FieldRef { api_version: "v1".into(), field_path: path.into() } }),
    };
    let mount = |name: &str, path: &str| Mount { name: name.into(), read_only: true, mount_path: path.into() };
    let log = EnvVar { name: "LOG_FORMAT".into(), value: Some("{\"level\":\"info\"}".into()), value_from: None };
    // A side car has less of everything.
    let is_main = name == "main";
    let env = if is_main { vec![field("POD_NAME", "metadata.name"), log] } else { vec![log] };
    Container {
        name: name.into(),
        image: format!("registry.example.com/shop/{app}-{name}:v1.42.7"),
        args: vec!["--config=/etc/app/config.yaml".into(), format!("--listen=0.0.0.0:{port}")],
        ports: vec![Port { name: "http".into(), container_port: port, protocol: "TCP".into() }],
        env,
        resources: Resources {
            limits: texts(&[("memory", "512Mi")]),
            requests: texts(&[("cpu", "100m"), ("memory", "256Mi")]),
        },
        volume_mounts: vec![
            mount("config", "/etc/app"),
            mount("kube-api-access-x7k2p", "/var/run/secrets/kubernetes.io/serviceaccount"),
        ],
        liveness_probe: is_main.then(|| probe("/healthz")),
        readiness_probe: Some(probe("/readyz")),
        termination_message_path: "/dev/termination-log".into(),
        termination_message_policy: "File".into(),
        image_pull_policy: "IfNotPresent".into(),
        security_context: is_main.then(|| SecurityContext {
            run_as_user: Some(1000),
            read_only_root_filesystem: Some(true),
            allow_privilege_escalation: Some(false),
            ..SecurityContext::default()
        }),
    }
}

fn toleration(what: &str) -> Toleration {
    Toleration {
        key: format!("node.kubernetes.io/{what}"),
        operator: "Exists".into(),
        effect: "NoExecute".into(),
        toleration_seconds: 300,
    }
}

fn status(n: u64, version: u64, containers: &[&str]) -> Status {
    let condition = |kind: &str, time: &str| Condition {
        kind: kind.into(),
        status: "True".into(),
        last_probe_time: None,
        last_transition_time: time.into(),
    };
    let (host, pod) =
        (format!("10.1.{}.{}", n % 200, 4), format!("10.{}.{}.{}", 2 + n / 60_000, n / 250 % 240, n % 250));
    let container = |name: &&str| {
        let digest = format!("{:064x}", u128::from(n) << 64 | 0xa5a5);
        ContainerStatus {
            name: name.to_string(),
            state: RunState { running: Some(Running { started_at: READY.into() }) },
            last_state: RunState::default(),
            ready: true,
            restart_count: version,
            image: format!("registry.example.com/shop/app-{}-{name}:v1.42.7", n % 100),
            image_id: format!("registry.example.com/shop/app-{name}@sha256:{digest}"),
            container_id: format!("containerd://{digest}"),
            started: true,
        }
    };
    Status {
        phase: "Running".into(),
        conditions: vec![
            condition("PodReadyToStartContainers", MADE),
            condition("Initialized", MADE),
            condition("Ready", READY),
            condition("ContainersReady", READY),
            condition("PodScheduled", MADE),
        ],
        host_ips: vec![Ip { ip: host.clone() }],
        host_ip: host,
        pod_ips: vec![Ip { ip: pod.clone() }],
        pod_ip: pod,
        start_time: MADE.into(),
        container_statuses: containers.iter().map(container).collect(),
        qos_class: "Burstable".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_size_of_a_real_one() {
        let total: usize = (0..100).map(|n| serde_json::to_vec(&Pod::sample(n * 97, 1)).unwrap().len()).sum();
        assert!((6_800..7_000).contains(&(total / 100)), "{} bytes on average", total / 100);
    }

    #[test]
    fn a_pod_comes_back_from_its_json() {
        let json = serde_json::to_vec(&Pod::sample(42, 3)).unwrap();
        let pod = Pod::decode(&json, &Pod::resource()).unwrap();
        assert_eq!(serde_json::to_vec(&pod).unwrap(), json);
        assert_eq!((pod.restarts(), pod.node()), (6, "node-042.eu-west-1.compute.internal"));
        assert_eq!(pod.metadata().owners().next().unwrap().kind, "ReplicaSet");
    }
}
