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
    /// The kind of one object, as in `Pod`.
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

/// A text that names no resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseResourceError(pub(crate) String);

impl fmt::Display for ParseResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} names no resource: expected a plural as in \"pods\", \"deployments.apps\" or \
             \"widgets.v1.example.com\"",
            self.0
        )
    }
}

impl core::error::Error for ParseResourceError {}
