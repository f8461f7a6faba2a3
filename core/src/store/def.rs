//! [`IndexDef`]: a name and where the values of an index come from; [`IndexError`].

use super::value::{IndexValues, ValueText, ValueType, Values};
use crate::object::{Key, Meta, Obj, Object};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// The name of the namespace index, as in client-go.
pub const NAMESPACE: &str = "namespace";

/// What the name of a label index begins with; the label follows.
pub const LABEL_PREFIX: &str = "label:";

type Compute<T> = dyn Fn(&Obj<T>) -> Values + Send + Sync;

/// What computes the values of an object.
enum Function<T> {
    /// Nothing: the store reads the key.
    Nothing,
    /// A label is looked at where it lies.
    Label(for<'a> fn(&'a T, &str) -> Option<&'a str>),
    Made(Arc<Compute<T>>),
}

impl<T> Clone for Function<T> {
    fn clone(&self) -> Self {
        match self {
            Function::Nothing => Function::Nothing,
            Function::Label(read) => Function::Label(*read),
            Function::Made(function) => Function::Made(function.clone()),
        }
    }
}

/// The values of an object in one index; that of a label lies in the object.
pub(crate) enum Lent<'a> {
    One(Option<&'a str>),
    Made(Values),
}

/// Where the values of an index come from. Listers use the two kinds whose meaning they know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A function of the user's.
    Function,
    /// The namespace in the key: it costs no function and never changes while the object is there.
    Namespace,
    /// The label of this name.
    Label(Arc<str>),
}

/// A named index function.
pub struct IndexDef<T> {
    name: Arc<str>,
    source: Source,
    value_type: ValueType,
    function: Function<T>,
}

impl<T> Clone for IndexDef<T> {
    fn clone(&self) -> Self {
        IndexDef {
            name: self.name.clone(),
            source: self.source.clone(),
            value_type: self.value_type,
            function: self.function.clone(),
        }
    }
}

impl<T> IndexDef<T> {
    /// An index called `name` over what `function` returns.
    ///
    /// The function is total (it cannot fail) and must depend on nothing but the object (B092): it runs once for each
    /// version of it, when that is decoded.
    pub fn new<V: IndexValues>(name: &str, function: impl Fn(&Obj<T>) -> V + Send + Sync + 'static) -> Self {
        IndexDef {
            name: name.into(),
            source: Source::Function,
            value_type: ValueType::of::<V::Value>(),
            function: Function::Made(Arc::new(move |object| function(object).into_values())),
        }
    }

    /// The index of namespaces, called [`NAMESPACE`]; a cluster-scoped object has the value `""`. Listers of one
    /// namespace use it.
    pub fn namespace() -> Self {
        IndexDef {
            name: NAMESPACE.into(),
            source: Source::Namespace,
            value_type: ValueType::of::<String>(),
            function: Function::Nothing,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// The values that the store cannot read from the key.
    pub(crate) fn values(&self, object: &Obj<T>) -> Values {
        match self.lend(object) {
            Lent::One(value) => value.into_iter().map(ValueText::from).collect(),
            Lent::Made(values) => values,
        }
    }

    /// The same, for who uses them while the object stays where it is.
    pub(crate) fn lend<'a>(&self, object: &'a Obj<T>) -> Lent<'a> {
        match (&self.function, &self.source) {
            (Function::Label(read), Source::Label(label)) => Lent::One(read(object, label)),
            (Function::Made(function), _) => Lent::Made(function(object)),
            (Function::Nothing | Function::Label(_), _) => Lent::One(None),
        }
    }
}

impl<T: Object> IndexDef<T> {
    /// The index of one label, called `label:` and its name; an object without the label has no value. Selectors use it
    /// by themselves: what requires a value of this label then costs the size of the answer, and what requires the label, or a
    /// number above or below another, a look at each value besides. It can speed up an answer, and never changes one.
    ///
    /// ```
    /// use informer_core::decode::Codec;
    /// use informer_core::lister::Lister;
    /// use informer_core::store::{IndexDef, Store};
    /// use informer_core::{DynamicObject, Key, Obj, Resource, Uid, Version};
    ///
    /// let codec = Codec::<DynamicObject>::new(Resource::namespaced("", "v1", "pods", "Pod"));
    /// let mut store = Store::new(7);
    /// store.add_index(IndexDef::label("app")).unwrap();
    /// let pod = codec.build(br#"{"metadata":{"labels":{"app":"shop"}}}"#).unwrap();
    /// store.upsert(Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new("1"), pod));
    ///
    /// let selector = "app in (shop, blog)".parse().unwrap();
    /// assert_eq!(Lister::new(&store).matching(&selector).count(), 1); // by the index
    /// assert_eq!(store.by_index("label:app", "shop").unwrap().len(), 1);
    /// ```
    pub fn label(label: &str) -> Self {
        IndexDef {
            name: format!("{LABEL_PREFIX}{label}").into(),
            source: Source::Label(label.into()),
            value_type: ValueType::of::<String>(),
            function: Function::Label(|object, label| object.metadata().label(label)),
        }
    }
}

impl<T> fmt::Debug for IndexDef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {:?}", self.name)
    }
}

/// An index that cannot be made or used.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// There is an index of this name already; it is unchanged.
    Exists(String),
    /// There is no index of this name.
    Unknown(String),
    /// The values of this index are of another type.
    OtherType {
        /// The name of the index.
        index: String,
        /// The type of its values.
        holds: &'static str,
        /// The type that was asked for.
        asked: &'static str,
    },
    /// The function of an index that was to be added panicked on an object that is there; nothing was added.
    Panicked {
        /// The name of the index.
        index: String,
        /// The object.
        key: Key,
        /// The text of the panic.
        reason: String,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::Exists(name) => write!(f, "there is an index {name:?} already: pick another name"),
            IndexError::Unknown(name) => write!(f, "there is no index {name:?}: add it to the informer first"),
            IndexError::OtherType { index, holds, asked } => write!(
                f,
                "index {index:?} holds values of type {holds}, not {asked}: ask for that type, or for String, which reads \
                 every index"
            ),
            IndexError::Panicked { index, key, reason } => {
                write!(
                    f,
                    "the function of index {index:?} panicked on {key}: {reason}; it must answer for every object"
                )
            }
        }
    }
}

impl fmt::Debug for IndexError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for IndexError {}
