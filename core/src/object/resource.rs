//! [`Resource`]: which collection of the API an informer reads.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::fmt;

/// A resource of the API: group, version, plural name, kind and scope.
///
/// ```
/// use informer_core::object::Resource;
///
/// let pods = Resource::namespaced("", "v1", "pods", "Pod");
/// assert_eq!(pods.path(None), "/api/v1/pods");
/// assert_eq!(pods.path(Some("web")), "/api/v1/namespaces/web/pods");
///
/// let deployments = Resource::namespaced("apps", "v1", "deployments", "Deployment");
/// assert_eq!(deployments.path(None), "/apis/apps/v1/deployments");
/// assert_eq!(deployments.to_string(), "deployments.apps");
/// assert_eq!(deployments.api_version(), "apps/v1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: Cow<'static, str>,
    /// The version within the group, as in `v1`.
    pub version: Cow<'static, str>,
    /// The plural, lower-case name that stands in paths, as in `pods`.
    pub plural: Cow<'static, str>,
    /// The kind of one object, as in `Pod`; empty if it is not known, and then any kind is accepted.
    pub kind: Cow<'static, str>,
    /// True if each object lives in a namespace.
    pub namespaced: bool,
}

impl Resource {
    /// A resource whose objects live in namespaces.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Resource {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced: true,
        }
    }

    /// A resource whose objects live in the cluster.
    pub const fn cluster(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Self {
        let mut resource = Resource::namespaced(group, version, plural, kind);
        resource.namespaced = false;
        resource
    }

    /// A resource that is known only when the program runs.
    pub fn dynamic(group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) -> Self {
        let own = |text: &str| Cow::Owned(text.to_string());
        Resource { group: own(group), version: own(version), plural: own(plural), kind: own(kind), namespaced }
    }

    /// `group/version`, or `version` alone in the core group: what stands in an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            return self.version.to_string();
        }
        alloc::format!("{}/{}", self.group, self.version)
    }

    /// True if `text` is this resource's `apiVersion`; compares without building it.
    pub fn is_api_version(&self, text: &str) -> bool {
        match text.split_once('/') {
            Some((group, version)) => group == self.group && version == self.version,
            None => self.group.is_empty() && text == self.version,
        }
    }

    /// The path of the collection: everywhere, or in one namespace. A cluster-scoped resource ignores the namespace.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path =
            if self.group.is_empty() { String::from("/api/") } else { alloc::format!("/apis/{}/", self.group) };
        path.push_str(&self.version);
        if let (true, Some(namespace)) = (self.namespaced, namespace) {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }
}

impl fmt::Display for Resource {
    /// `plural` or `plural.group`, as kubectl names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// The resources that every cluster has and people watch: version, plural, kind, namespaced.
const BUILT_IN: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "bindings", "Binding", true),
    ("", "v1", "configmaps", "ConfigMap", true),
    ("", "v1", "endpoints", "Endpoints", true),
    ("", "v1", "events", "Event", true),
    ("", "v1", "limitranges", "LimitRange", true),
    ("", "v1", "namespaces", "Namespace", false),
    ("", "v1", "nodes", "Node", false),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
    ("", "v1", "persistentvolumes", "PersistentVolume", false),
    ("", "v1", "pods", "Pod", true),
    ("", "v1", "podtemplates", "PodTemplate", true),
    ("", "v1", "replicationcontrollers", "ReplicationController", true),
    ("", "v1", "resourcequotas", "ResourceQuota", true),
    ("", "v1", "secrets", "Secret", true),
    ("", "v1", "serviceaccounts", "ServiceAccount", true),
    ("", "v1", "services", "Service", true),
    ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false),
    ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false),
    ("apiregistration.k8s.io", "v1", "apiservices", "APIService", false),
    ("apps", "v1", "controllerrevisions", "ControllerRevision", true),
    ("apps", "v1", "daemonsets", "DaemonSet", true),
    ("apps", "v1", "deployments", "Deployment", true),
    ("apps", "v1", "replicasets", "ReplicaSet", true),
    ("apps", "v1", "statefulsets", "StatefulSet", true),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true),
    ("batch", "v1", "cronjobs", "CronJob", true),
    ("batch", "v1", "jobs", "Job", true),
    ("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", false),
    ("coordination.k8s.io", "v1", "leases", "Lease", true),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true),
    ("events.k8s.io", "v1", "events", "Event", true),
    ("networking.k8s.io", "v1", "ingressclasses", "IngressClass", false),
    ("networking.k8s.io", "v1", "ingresses", "Ingress", true),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true),
    ("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", true),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false),
    ("storage.k8s.io", "v1", "csidrivers", "CSIDriver", false),
    ("storage.k8s.io", "v1", "csinodes", "CSINode", false),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass", false),
    ("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false),
];

impl core::str::FromStr for Resource {
    type Err = ParseResourceError;

    /// Reads what kubectl reads, without asking a server: `pods`, `deployments.apps` for what every cluster has, and
    /// `widgets.v1.example.com` for anything. The kind of a resource that is not built in stays empty (unknown: any
    /// kind is accepted), and it is taken to live in namespaces.
    ///
    /// ```
    /// use informer_core::Resource;
    ///
    /// let deployments: Resource = "deployments.apps".parse().unwrap();
    /// assert_eq!(deployments, Resource::namespaced("apps", "v1", "deployments", "Deployment"));
    /// let widgets: Resource = "widgets.v1.example.com".parse().unwrap();
    /// assert_eq!(widgets.path(None), "/apis/example.com/v1/widgets");
    /// assert!("widgets.example.com".parse::<Resource>().is_err(), "without a version nobody knows it");
    /// ```
    fn from_str(text: &str) -> Result<Self, ParseResourceError> {
        let error = || ParseResourceError(text.to_string());
        let is_label = |part: &str| {
            let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
        };
        if !text.split('.').all(is_label) {
            return Err(error());
        }
        let (plural, rest) = text.split_once('.').unwrap_or((text, ""));
        let (version, group) = match rest.split_once('.') {
            Some((version, group)) if is_version(version) => (version, group),
            None if is_version(rest) => (rest, ""),
            Some(_) | None => ("", rest),
        };
        let known = BUILT_IN
            .iter()
            .find(|(of, at, name, ..)| *name == plural && *of == group && (version.is_empty() || *at == version));
        match known {
            Some(&(group, version, plural, kind, true)) => Ok(Resource::namespaced(group, version, plural, kind)),
            Some(&(group, version, plural, kind, false)) => Ok(Resource::cluster(group, version, plural, kind)),
            None if version.is_empty() => Err(error()),
            None => Ok(Resource::dynamic(group, version, plural, "", true)),
        }
    }
}

/// `v1`, `v1beta2`, `v2alpha1`.
fn is_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else { return false };
    let (major, minor) = match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => (major, Some(minor)),
        None => (rest, None),
    };
    digits(major) && minor.is_none_or(digits)
}

/// A text that names no resource.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseResourceError(String);

impl fmt::Display for ParseResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} names no resource that is known: write \"pods\", \"deployments.apps\", or with its version \
             \"widgets.v1.example.com\"",
            self.0
        )
    }
}

impl fmt::Debug for ParseResourceError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for ParseResourceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_as_kubectl_reads_them() {
        let read = |text: &str| text.parse::<Resource>().map(|resource| resource.path(None));
        assert_eq!(read("pods").unwrap(), "/api/v1/pods");
        assert_eq!(read("pods.v1").unwrap(), "/api/v1/pods");
        assert_eq!(read("deployments.v1.apps").unwrap(), "/apis/apps/v1/deployments");
        assert_eq!(read("nodes").unwrap(), "/api/v1/nodes");
        assert_eq!(read("things.v1beta2.example.com").unwrap(), "/apis/example.com/v1beta2/things");
        for bad in ["", ".", "Pods", "pods/..", "widgets", "widgets.example.com", "a b", "pods.", "-pods", "pods?x=1"] {
            assert!(read(bad).unwrap_err().to_string().contains("names no resource"), "{bad}");
        }
    }

    #[test]
    fn versions_are_told_from_groups() {
        for good in ["v1", "v12", "v1beta1", "v2alpha10"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "v", "apps", "v1beta", "vbeta1", "v1.2", "1"] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
