//! [`Client`]: one API server, and who we are there; [`Api`]: reads and writes of single objects.

use crate::connection::Connector;
use informer_core::{Key, Object, Resource};
use informer_runtime::api::{ApiRequest, Call, DEFAULT_TIMEOUT, DeleteOptions, Deletion};
use informer_runtime::fault::Fault;
use informer_runtime::sync::Arc;
use informer_runtime::{Config, Error};
use serde::Serialize;
use std::fmt;
use std::future::ready;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::time::timeout;

/// A client of one API server. Cheap to clone; clones share a few idle connections.
///
/// ```no_run
/// use informer_tokio::{Client, Config, DynamicObject, Key, Resource};
///
/// # async fn example() -> Result<(), informer_tokio::Error> {
/// let client = Client::connect(Config::from_url("http://127.0.0.1:8001")?)?;
/// let maps = client.api_of::<DynamicObject>(Resource::namespaced("", "v1", "configmaps", "ConfigMap"));
/// let key = Key::new("default", "settings");
/// match maps.get(&key).await {
///     Ok(map) => println!("{}", map.json()),
///     Err(error) if error.is_not_found() => println!("there is no {key}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    connector: Arc<Connector>,
    timeout: Duration,
}

impl Client {
    /// A client of this cluster. No connection is made before it is needed.
    ///
    /// # Errors
    ///
    /// If the certificates, keys, token or user of the configuration cannot be used.
    pub fn connect(config: Config) -> Result<Self, Error> {
        config.check()?;
        Ok(Client { connector: Arc::new(Connector::new(config)?), timeout: DEFAULT_TIMEOUT })
    }

    /// A client of the cluster that kubectl would use, or of the one that this pod runs in.
    ///
    /// # Errors
    ///
    /// As [`Config::load_default`], and [`connect`](Self::connect).
    pub fn connect_default() -> Result<Self, Error> {
        Client::connect(Config::load_default()?)
    }

    /// A client of no server: see [`Config::offline`].
    pub(crate) fn offline() -> Self {
        Client::connect(Config::offline()).expect("what has no server, certificate or token cannot be wrong about one")
    }

    /// How long each call of its APIs may take, with all that belongs to it; [`DEFAULT_TIMEOUT`] otherwise.
    #[must_use]
    pub fn timeout(mut self, within: Duration) -> Self {
        self.timeout = within;
        self
    }

    /// Where it connects to.
    pub fn config(&self) -> &Config {
        self.connector.config()
    }

    pub(crate) fn connector(&self) -> &Arc<Connector> {
        &self.connector
    }

    /// Reads and writes of a type's objects.
    pub fn api<T: Object>(&self) -> Api<T> {
        const { assert!(!T::DYNAMIC, "this type stands for many resources: use Client::api_of(resource)") };
        self.api_of(T::resource())
    }

    /// The same for a type that stands for many resources.
    pub fn api_of<T: Object>(&self, resource: Resource) -> Api<T> {
        Api { client: self.clone(), resource, kind: PhantomData }
    }

    /// [`Api::get`] of a type that has one resource.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn get<T: Object>(&self, key: &Key) -> Result<T, Error> {
        self.api().get(key).await
    }

    /// [`Api::create`] of a type that has one resource.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn create<T: Object + Serialize>(&self, namespace: &str, object: &T) -> Result<T, Error> {
        self.api().create(namespace, object).await
    }

    /// [`Api::update`] of a type that has one resource.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn update<T: Object + Serialize>(&self, key: &Key, object: &T) -> Result<T, Error> {
        self.api().update(key, object).await
    }

    /// [`Api::update_status`] of a type that has one resource.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn update_status<T: Object + Serialize>(&self, key: &Key, object: &T) -> Result<T, Error> {
        self.api().update_status(key, object).await
    }

    /// [`Api::merge_patch`] of a type that has one resource.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn merge_patch<T: Object>(
        &self,
        key: &Key,
        patch: &(impl Serialize + Sync + ?Sized),
    ) -> Result<T, Error> {
        self.api().merge_patch(key, patch).await
    }

    /// [`Api::merge_patch_status`] of a type that has one resource.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn merge_patch_status<T: Object>(
        &self,
        key: &Key,
        patch: &(impl Serialize + Sync + ?Sized),
    ) -> Result<T, Error> {
        self.api().merge_patch_status(key, patch).await
    }

    /// [`Api::delete`] of a type that has one resource.
    ///
    /// # Errors
    ///
    /// As that.
    pub async fn delete<T: Object>(
        &self,
        key: &Key,
        options: impl Into<DeleteOptions> + Send,
    ) -> Result<Deletion<T>, Error> {
        self.api::<T>().delete(key, options).await
    }

    /// Sends a call until it is answered: status code and body.
    async fn call(&self, request: ApiRequest) -> Result<(u16, Vec<u8>), Error> {
        let mut call = Call::new(request);
        let answered = timeout(self.timeout, self.answer(&mut call)).await;
        let late = |_| Err(Fault::broken(format_args!("no answer within {:?}", self.timeout)));
        answered.unwrap_or_else(late).map_err(|fault| call.failed(fault))
    }

    async fn answer(&self, call: &mut Call) -> Result<(u16, Vec<u8>), Fault> {
        loop {
            let asked = call.clone();
            let made = self.connector.prepare(move |config| asked.outgoing(config)).await;
            let outgoing = made.ok_or_else(|| Fault::broken("the runtime is shutting down"))??;
            let mut answer = self.connector.send(&outgoing, self.timeout, || ready(())).await?;
            while let Some(part) = answer.part().await {
                call.part(&part?)?;
            }
            let code = answer.head.status;
            self.connector.finished(answer, outgoing.watch).await;
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

/// Reads and writes single objects of one resource, past any cache.
///
/// Each call fails with [`Error::Api`] if the server refuses it, and with [`Error::Transport`] if there is no answer in
/// time or none that can be read. A write that failed with the latter may have happened.
pub struct Api<T> {
    client: Client,
    resource: Resource,
    kind: PhantomData<fn() -> T>,
}

impl<T: Object> Api<T> {
    async fn object(&self, request: ApiRequest) -> Result<T, Error> {
        let (code, body) = self.client.call(request.clone()).await?;
        request.read_object(code, &body)
    }

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// See the [type](Self); [`Error::is_not_found`] if there is none.
    pub async fn get(&self, key: &Key) -> Result<T, Error> {
        self.object(ApiRequest::get(&self.resource, key)?).await
    }

    /// Makes an object in a namespace (empty for a cluster-scoped one); returns it as the server has it.
    /// What `object` does not say of `apiVersion` and `kind` is added.
    ///
    /// # Errors
    ///
    /// See the [type](Self); [`Error::is_conflict`] if there is one of this name.
    pub async fn create(&self, namespace: &str, object: &(impl Serialize + Sync + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::create(&self.resource, namespace, object)?).await
    }

    /// Replaces an object, which carries the `resourceVersion` that it replaces.
    ///
    /// It is replaced as a whole: **a field that the type of `object` does not have is erased**, whoever wrote it. With a
    /// type that names some of the fields only, use [`merge_patch`](Self::merge_patch). `apiVersion` and `kind` are added as
    /// by [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// See the [type](Self); [`Error::is_conflict`] if that is not the current version.
    pub async fn update(&self, key: &Key, object: &(impl Serialize + Sync + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::update(&self.resource, key, object)?).await
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub async fn update_status(&self, key: &Key, object: &(impl Serialize + Sync + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::update_status(&self.resource, key, object)?).await
    }

    /// Applies a JSON merge patch (RFC 7386): what it does not name stays as it is.
    ///
    /// A list is replaced as a whole: a patch of one (`finalizers`, `ownerReferences`) carries the `resourceVersion` of the
    /// object that it was made from, and is a conflict if somebody was faster.
    ///
    /// # Errors
    ///
    /// See the [type](Self).
    pub async fn merge_patch(&self, key: &Key, patch: &(impl Serialize + Sync + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::merge_patch(&self.resource, key, patch)?).await
    }

    /// Applies a JSON merge patch to the status.
    ///
    /// # Errors
    ///
    /// See the [type](Self).
    pub async fn merge_patch_status(&self, key: &Key, patch: &(impl Serialize + Sync + ?Sized)) -> Result<T, Error> {
        self.object(ApiRequest::merge_patch_status(&self.resource, key, patch)?).await
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
    /// use informer_tokio::{Api, DeleteOptions, DynamicObject, Key, Obj, OwnWrites, PropagationPolicy};
    /// use std::time::Duration;
    ///
    /// # async fn example(
    /// #     jobs: Api<DynamicObject>, pods: Api<DynamicObject>, own: OwnWrites<DynamicObject>, seen: Obj<DynamicObject>,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// // As the server would by itself, whatever is called so now:
    /// let deleted = jobs.delete(&Key::new("web", "nightly"), DeleteOptions::default()).await?;
    /// println!("its Pods run on, and until they are without it: {deleted:?}");
    /// // A Job with its Pods:
    /// let deleted = jobs.delete(&Key::new("web", "hourly"), PropagationPolicy::Background).await?;
    /// println!("its Pods go after it: {deleted:?}");
    /// // The very Pod that was seen, which gets five seconds to stop:
    /// let only_it = DeleteOptions::default().with_uid(seen.uid()).with_grace_period(Duration::from_secs(5));
    /// let answer = pods.delete(&seen.key().to_key(), only_it).await?;
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
    /// See the [type](Self); [`Error::is_conflict`] if a precondition does not hold. Nothing is sent if the options cannot be
    /// meant: an empty precondition, a grace period that is no whole number of seconds.
    pub async fn delete(&self, key: &Key, options: impl Into<DeleteOptions> + Send) -> Result<Deletion<T>, Error> {
        let request = ApiRequest::delete(&self.resource, key, options)?;
        let (code, body) = self.client.call(request.clone()).await?;
        request.read_deletion(code, &body)
    }
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Api { client: self.client.clone(), resource: self.resource.clone(), kind: PhantomData }
    }
}

impl<T> fmt::Debug for Api<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "API of {}", self.resource)
    }
}
