//! [`Client`]: one cluster, and the calls that read and write single objects.
//!
//! ```no_run
//! use informer_blocking::{Client, Key, Object, ObjectMeta, Resource};
//!
//! #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
//! struct ConfigMap {
//!     metadata: ObjectMeta,
//! }
//! # impl Object for ConfigMap {
//! #     type Meta = ObjectMeta;
//! #     fn resource() -> Resource { Resource::namespaced("", "v1", "configmaps", "ConfigMap") }
//! #     fn metadata(&self) -> &ObjectMeta { &self.metadata }
//! # }
//!
//! let client = Client::connect_default()?;
//! let mut map = client.get::<ConfigMap>(&Key::new("web", "settings"))?;
//! map.metadata.labels.insert("reviewed", "yes");
//! match client.update(&Key::new("web", "settings"), &map) {
//!     Err(error) if error.is_conflict() => println!("somebody was faster"),
//!     answer => println!("now at version {}", answer?.metadata.resource_version),
//! }
//! # Ok::<(), informer_blocking::Error>(())
//! ```

use crate::http::Wire;
use crate::socket::Handle;
use crate::transport::{Limits, Transport, Watcher};
use informer_core::{Key, Object, Resource};
use informer_runtime::api::{ApiRequest, Call, DEFAULT_TIMEOUT, DeleteOptions, Deletion};
use informer_runtime::fault::Fault;
use informer_runtime::sync::{Arc, deadline};
use informer_runtime::{Config, Error};
use serde::Serialize;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// One cluster. Cheap to clone; clones share idle connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) transport: Arc<Transport>,
    timeout: Duration,
}

impl Client {
    /// A client for a cluster. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// If the TLS settings, the token or the user cannot be used, or if HTTP/2 is asked for, which this runtime does not
    /// speak.
    pub fn connect(config: Config) -> Result<Self, Error> {
        config.check()?;
        Ok(Client { transport: Arc::new(Transport::new(config)?), timeout: DEFAULT_TIMEOUT })
    }

    /// A client for the cluster that kubectl would use, or that this pod runs in: see [`Config::load_default`].
    ///
    /// # Errors
    ///
    /// If there is no usable configuration.
    pub fn connect_default() -> Result<Self, Error> {
        Client::connect(Config::load_default()?)
    }

    /// A client of no server: see [`Config::offline`].
    pub(crate) fn offline() -> Self {
        Client::connect(Config::offline()).expect("what has no server, certificate or token cannot be wrong about one")
    }

    /// How long each call may take, from name resolution to the last byte; [`DEFAULT_TIMEOUT`] otherwise.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How the cluster is reached.
    pub fn config(&self) -> &Config {
        &self.transport.config
    }

    /// Calls on the objects of a type.
    pub fn api<T: Object>(&self) -> Api<T> {
        const { assert!(!T::DYNAMIC, "this type stands for many resources: use Client::api_of(resource)") };
        self.api_of(T::resource())
    }

    /// Calls on the objects of a resource, for a type that stands for many.
    pub fn api_of<T: Object>(&self, resource: Resource) -> Api<T> {
        Api { client: self.clone(), resource, object: PhantomData }
    }

    /// See [`Api::get`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn get<T: Object>(&self, key: &Key) -> Result<T, Error> {
        self.api().get(key)
    }

    /// See [`Api::create`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn create<T: Object + Serialize>(&self, namespace: &str, object: &T) -> Result<T, Error> {
        self.api().create(namespace, object)
    }

    /// See [`Api::update`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn update<T: Object + Serialize>(&self, key: &Key, object: &T) -> Result<T, Error> {
        self.api().update(key, object)
    }

    /// See [`Api::update_status`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn update_status<T: Object + Serialize>(&self, key: &Key, object: &T) -> Result<T, Error> {
        self.api().update_status(key, object)
    }

    /// See [`Api::merge_patch`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn merge_patch<T: Object>(&self, key: &Key, patch: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.api().merge_patch(key, patch)
    }

    /// See [`Api::merge_patch_status`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn merge_patch_status<T: Object>(&self, key: &Key, patch: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.api().merge_patch_status(key, patch)
    }

    /// See [`Api::delete`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn delete<T: Object>(&self, key: &Key, options: impl Into<DeleteOptions>) -> Result<Deletion<T>, Error> {
        self.api::<T>().delete(key, options)
    }

    /// Sends a call until it is answered: status code and body.
    fn call(&self, request: ApiRequest) -> Result<(u16, Vec<u8>), Error> {
        let mut call = Call::new(request);
        self.answer(&mut call).map_err(|fault| call.failed(fault))
    }

    fn answer(&self, call: &mut Call) -> Result<(u16, Vec<u8>), Fault> {
        let by = deadline(Instant::now(), self.timeout);
        loop {
            let outgoing = call.outgoing(self.config())?;
            let limits = Limits { connect: by, answer: Some(by) };
            let mut answer = self.transport.exchange(&outgoing, &limits, &Nobody)?;
            while let Some(part) = answer.wire.part()? {
                call.part(&part)?;
            }
            let code = answer.head.status;
            self.transport.keep(answer, &outgoing);
            if let Some(answer) = call.answered(code) {
                return Ok(answer);
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.config().is_offline() {
            true => f.write_str("client of no server"),
            false => write!(f, "client of {}", self.config().server),
        }
    }
}

/// Calls have a deadline of their own; nobody cancels them.
struct Nobody;

impl Watcher for Nobody {
    fn connecting(&self, _: &Handle) -> Result<(), Fault> {
        Ok(())
    }

    fn connected(&self, _: &mut Wire) -> Result<(), Fault> {
        Ok(())
    }
}

/// Calls on the objects of one resource.
///
/// Each call blocks until its answer is there or the client's timeout is over. A refused credential is read anew and
/// tried once more.
pub struct Api<T> {
    client: Client,
    resource: Resource,
    object: PhantomData<fn() -> T>,
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Api { client: self.client.clone(), resource: self.resource.clone(), object: PhantomData }
    }
}

impl<T: Object> Api<T> {
    fn object(&self, request: ApiRequest) -> Result<T, Error> {
        let (code, body) = self.client.call(request.clone())?;
        request.read_object(code, &body)
    }

    /// Reads one object from the server, past every cache of ours.
    ///
    /// # Errors
    ///
    /// [`Error::Api`] if the server says no ([`Error::is_not_found`]); [`Error::Transport`] if no readable answer came.
    pub fn get(&self, key: &Key) -> Result<T, Error> {
        self.object(ApiRequest::get(&self.resource, key)?)
    }

    /// Makes an object in a namespace (empty for a cluster-scoped one) and answers it as the server has it.
    /// What `object` does not say of `apiVersion` and `kind` is added.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); a conflict if there is one of this name. After [`Error::Transport`] it may be there.
    pub fn create(&self, namespace: &str, object: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::create(&self.resource, namespace, object)?)
    }

    /// Replaces an object and answers it as the server has it.
    ///
    /// It is replaced as a whole: **a field that the type of `object` does not have is erased**, whoever wrote it. With a
    /// type that names some of the fields only, use [`merge_patch`](Self::merge_patch). `apiVersion` and `kind` are added as
    /// by [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); a conflict if it is no longer at the version that `object` carries.
    pub fn update(&self, key: &Key, object: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::update(&self.resource, key, object)?)
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn update_status(&self, key: &Key, object: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::update_status(&self.resource, key, object)?)
    }

    /// Changes the fields that a JSON merge patch (RFC 7386) names.
    ///
    /// A list is replaced as a whole: a patch of one (`finalizers`, `ownerReferences`) carries the `resourceVersion` of the
    /// object that it was made from, and is a conflict if somebody was faster.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); a conflict if the patch carries a version and the object is no longer at it.
    pub fn merge_patch(&self, key: &Key, patch: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::merge_patch(&self.resource, key, patch)?)
    }

    /// The same for the status.
    ///
    /// # Errors
    ///
    /// As [`merge_patch`](Self::merge_patch).
    pub fn merge_patch_status(&self, key: &Key, patch: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::merge_patch_status(&self.resource, key, patch)?)
    }

    /// Deletes an object as the options say, if their preconditions hold, and tells what became of it: with finalizers, or a
    /// grace period, it is still there when this returns.
    ///
    /// The objects that it owns are collected some time after it. **The Pods of a Job or a ReplicationController are not**:
    /// the server's default for these two is [`PropagationPolicy::Orphan`], which lets the Pods go on, and so holds the owner
    /// until they are without one. To have the Pods deleted, ask for [`PropagationPolicy::Background`], or for
    /// [`PropagationPolicy::Foreground`] to have them go first.
    ///
    /// ```no_run
    /// use informer_blocking::{Api, DeleteOptions, DynamicObject, Key, Obj, OwnWrites, PropagationPolicy};
    /// use std::time::Duration;
    ///
    /// # fn example(
    /// #     jobs: Api<DynamicObject>, pods: Api<DynamicObject>, own: OwnWrites<DynamicObject>, seen: Obj<DynamicObject>,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// // As the server would by itself, whatever is called so now:
    /// let deleted = jobs.delete(&Key::new("web", "nightly"), DeleteOptions::default())?;
    /// println!("its Pods run on, and until they are without it: {deleted:?}");
    /// // A Job with its Pods:
    /// let deleted = jobs.delete(&Key::new("web", "hourly"), PropagationPolicy::Background)?;
    /// println!("its Pods go after it: {deleted:?}");
    /// // The very Pod that was seen, which gets five seconds to stop:
    /// let only_it = DeleteOptions::default().with_uid(seen.uid()).with_grace_period(Duration::from_secs(5));
    /// let answer = pods.delete(&seen.key().to_key(), only_it)?;
    /// if !answer.is_gone() {
    ///     println!("{seen:?} waits: {:?}, {:?}", answer.grace_period(), answer.finalizers());
    /// }
    /// own.answered(&seen, answer)?; // reads through `own` know it before the cache does
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`PropagationPolicy::Orphan`]: informer_runtime::api::PropagationPolicy::Orphan
    /// [`PropagationPolicy::Background`]: informer_runtime::api::PropagationPolicy::Background
    /// [`PropagationPolicy::Foreground`]: informer_runtime::api::PropagationPolicy::Foreground
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); a conflict if a precondition does not hold. Nothing is sent if the options cannot be meant: an
    /// empty precondition, a grace period that is no whole number of seconds.
    pub fn delete(&self, key: &Key, options: impl Into<DeleteOptions>) -> Result<Deletion<T>, Error> {
        let request = ApiRequest::delete(&self.resource, key, options)?;
        let (code, body) = self.client.call(request.clone())?;
        request.read_deletion(code, &body)
    }
}

impl<T> fmt::Debug for Api<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "calls on {}", self.resource)
    }
}
