//! [`Empty`]: a collection without objects.

/// One that a path names. Its kind is made of the plural: `widgets` is of kind `Widget`.
pub(crate) struct Empty<'a> {
    api_version: &'a str,
    kind: String,
}

impl<'a> Empty<'a> {
    /// The collection at `/apis/<group>/<version>/<plural>`.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        let (api_version, plural) = path.strip_prefix("/apis/")?.rsplit_once('/')?;
        let mut letters = plural.trim_end_matches('s').chars();
        let kind = letters.next()?.to_ascii_uppercase().to_string() + letters.as_str();
        (api_version.split('/').count() == 2).then_some(Empty { api_version, kind })
    }

    pub(crate) fn list(&self) -> String {
        let Empty { api_version, kind } = self;
        format!(
            r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{{"resourceVersion":"9000000"}},"items":[]}}"#
        )
    }

    /// The bookmark that ends the initial events of a streaming list.
    pub(crate) fn end_of_initial_events(&self) -> String {
        let Empty { api_version, kind } = self;
        let metadata = r#"{"resourceVersion":"9000000","annotations":{"k8s.io/initial-events-end":"true"}}"#;
        let object = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata}}}"#);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_collection_is_named_by_its_path() {
        let empty = Empty::of("/apis/example.com/v1/widgets").unwrap();
        let list: Value = serde_json::from_str(&empty.list()).unwrap();
        assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("WidgetList"), Some("example.com/v1")));
        let bookmark: Value = serde_json::from_str(&empty.end_of_initial_events()).unwrap();
        assert_eq!(
            (bookmark["type"].as_str(), bookmark["object"]["kind"].as_str()),
            (Some("BOOKMARK"), Some("Widget"))
        );
        for path in ["/apis/v1/widgets", "/apis/a/b/c/widgets", "/apis/a/b/", "/api/v1/pods"] {
            assert!(Empty::of(path).is_none(), "{path}");
        }
    }
}
