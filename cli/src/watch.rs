//! `informer watch`: one informer, printed.

use crate::output::{Form, Output, Wake};
use crate::{Refusal, exit, pipe, tell};
use clap::{Args, ValueEnum};
use informer_core::listener::Notification;
use informer_core::reflector::ListStrategy;
use informer_core::selector::{FieldSelector, LabelSelector};
use informer_core::{DynamicObject, Resource};
use informer_runtime::Config;
use informer_runtime::config::HttpVersion;
use informer_runtime::factory::FactoryOptions;
use informer_runtime::handler::{HandlerOptions, Registration};
use informer_runtime::informer::InformerSpec;
use informer_runtime::lister::Lister;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

/// How long a stop may take before the process ends all the same.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// How long the last line may take to be read. A reader that is alive but does not read would else keep a process that
/// was told to stop.
const LAST_LINE_WITHIN: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct Options {
    /// What to watch: pods or deployments.apps; with its version what is not built in: widgets.v1.example.com
    resource: String,
    /// URL of the API server, as in http://127.0.0.1:8001 or unix:/run/api.sock
    #[arg(long, conflicts_with = "kubeconfig")]
    server: Option<String>,
    /// Kubeconfig file; without it and --server: $KUBECONFIG, ~/.kube/config, or the Pod's own account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, requires = "kubeconfig", conflicts_with = "server")]
    context: Option<String>,
    /// Bearer token
    #[arg(long)]
    token: Option<String>,
    /// Do not check the server's certificate
    #[arg(long)]
    insecure: bool,
    /// One namespace; all without it
    #[arg(long, short = 'n')]
    namespace: Option<String>,
    /// Label selector, as in 'app=web,tier notin (cache)'
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// Field selector, as in 'spec.nodeName=node-1'
    #[arg(long)]
    field_selector: Option<String>,
    /// Which adapter does the work: tasks or threads
    #[arg(long, value_enum, default_value = "tokio")]
    runtime: RuntimeName,
    /// Which HTTP is spoken; auto is what an https server prefers, 2 needs --runtime tokio
    #[arg(long, value_enum, default_value = "auto")]
    http: Http,
    /// How many handlers print, called h0, h1, …
    #[arg(long, default_value_t = 1)]
    handlers: usize,
    /// How lines look
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Form,
    /// Repeat every object in this period, in seconds; 0 is never
    #[arg(long, default_value_t = 0)]
    resync: u64,
    /// How the first state is read
    #[arg(long, value_enum, default_value = "auto")]
    list: Strategy,
}

#[derive(Clone, Copy, ValueEnum)]
enum RuntimeName {
    /// Tasks; HTTP/1.1 and HTTP/2.
    Tokio,
    /// Threads, no async code; HTTP/1.1.
    Blocking,
}

#[derive(Clone, Copy, ValueEnum)]
enum Http {
    /// What the server chooses over TLS, else HTTP/1.1.
    Auto,
    /// HTTP/1.1: a connection for each watch.
    #[value(name = "1")]
    One,
    /// HTTP/2, over http without a question.
    #[value(name = "2")]
    Two,
}

#[derive(Clone, Copy, ValueEnum)]
enum Strategy {
    /// As a streaming list, in pages if the server does not offer that.
    Auto,
    /// As the first events of a watch.
    Streaming,
    /// As a list in pages.
    Paged,
}

impl Options {
    fn config(&self) -> Result<Config, Refusal> {
        let mut config = match (&self.server, &self.kubeconfig) {
            (Some(url), _) => Config::from_url(url)?,
            (None, Some(path)) => Config::from_kubeconfig(path, self.context.as_deref())?,
            (None, None) => Config::load_default()?,
        };
        config = config.with_http_version(match self.http {
            Http::Auto => HttpVersion::Auto,
            Http::One => HttpVersion::Http1,
            Http::Two => HttpVersion::Http2,
        });
        if let Some(token) = &self.token {
            config = config.with_token(token.clone());
        }
        // A token that cannot be sent, or whose file is not there, is told before any request.
        config.authorization(false)?;
        Ok(if self.insecure { config.insecure(true) } else { config })
    }

    fn spec(&self) -> Result<InformerSpec<DynamicObject>, Refusal> {
        let resource: Resource = self.resource.parse()?;
        let mut spec = InformerSpec::of(resource.clone());
        spec = spec.resync(Duration::from_secs(self.resync)).strategy(match self.list {
            Strategy::Auto => ListStrategy::Auto,
            Strategy::Streaming => ListStrategy::Streaming,
            Strategy::Paged => ListStrategy::Paged,
        });
        if let Some(namespace) = self.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if !namespace.bytes().all(fits) {
                return Err(format!("{namespace:?} is no namespace: lower-case letters, digits and '-' only").into());
            }
            if !resource.namespaced {
                return Err(format!("{resource} live in no namespace: leave --namespace away").into());
            }
            spec = spec.namespace(namespace);
        }
        if let Some(text) = &self.selector {
            spec = spec.labels(&text.parse::<LabelSelector>()?);
        }
        if let Some(text) = &self.field_selector {
            spec = spec.fields(&text.parse::<FieldSelector>()?);
        }
        Ok(spec)
    }
}

/// One of the two runtimes, with the words that `watch` needs of it.
enum Running {
    Tokio(tokio::runtime::Runtime, informer_tokio::Factory, informer_tokio::Informer<DynamicObject>),
    Blocking(informer_blocking::Factory, informer_blocking::Informer<DynamicObject>),
}

impl Running {
    fn new(options: &Options, observed: FactoryOptions) -> Result<Self, Refusal> {
        let (config, spec) = (options.config()?, options.spec()?);
        Ok(match options.runtime {
            RuntimeName::Tokio => {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
                let guard = runtime.enter();
                let client = informer_tokio::Client::connect(config)?;
                let factory = informer_tokio::Factory::with_options(client, observed);
                let informer = factory.try_informer(spec)?;
                drop(guard);
                Running::Tokio(runtime, factory, informer)
            }
            RuntimeName::Blocking => {
                let client = informer_blocking::Client::connect(config)?;
                let factory = informer_blocking::Factory::with_options(client, observed);
                let informer = factory.try_informer(spec)?;
                Running::Blocking(factory, informer)
            }
        })
    }

    fn handle(&self, name: &str, output: Arc<Output>) -> Registration {
        let mut options = HandlerOptions::named(name);
        let (who, on_synced) = (name.to_string(), Arc::clone(&output));
        let named = who.clone();
        options.on_synced = Some(Arc::new(move || on_synced.synced(&named)));
        let handler = move |notification: &Notification<_>| output.event(&who, notification);
        match self {
            Running::Tokio(runtime, _, informer) => {
                let _guard = runtime.enter();
                informer.handle_with(options, handler)
            }
            Running::Blocking(_, informer) => informer.handle_with(options, handler),
        }
    }

    fn lister(&self) -> Lister<DynamicObject> {
        match self {
            Running::Tokio(_, _, informer) => informer.lister(),
            Running::Blocking(_, informer) => informer.lister(),
        }
    }

    fn start(&self) {
        match self {
            Running::Tokio(runtime, factory, _) => {
                let _guard = runtime.enter();
                factory.start();
            }
            Running::Blocking(factory, _) => factory.start(),
        }
    }

    fn stop(self) {
        let stopped = match self {
            Running::Tokio(runtime, factory, _) => {
                let stopped = runtime.block_on(factory.stop(STOP_WITHIN));
                runtime.shutdown_timeout(Duration::ZERO);
                stopped
            }
            Running::Blocking(factory, _) => factory.stop(STOP_WITHIN),
        };
        if let Err(error) = stopped {
            tell(format_args!("informer: {error}"));
        }
    }
}

pub(crate) fn run(options: Options) -> Result<u8, Refusal> {
    let (wake, woken) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    let on_signal = wake.clone();
    thread::spawn(move || {
        for signal in &mut signals {
            let _ = on_signal.send(if signal == SIGUSR1 { Wake::Store } else { Wake::Stop });
        }
    });
    let on_gone = wake.clone();
    pipe::when_closed(move || drop(on_gone.send(Wake::Stop)));
    let output = Arc::new(Output::new(options.output, wake));
    let observer = Arc::clone(&output);
    let running =
        Running::new(&options, FactoryOptions::observed(Arc::new(move |observed| observer.observed(observed))))?;
    output.header();
    for number in 0..options.handlers {
        running.handle(&format!("h{number}"), Arc::clone(&output));
    }
    let lister = running.lister();
    running.start();
    // Printed by a thread of its own: a reader that does not read holds up that thread, and not the stop.
    let (printer, stores) = mpsc::channel::<Sender<()>>();
    thread::spawn(move || {
        for printed in stores {
            output.store(&lister);
            let _ = printed.send(());
        }
    });
    let print = || {
        let (printed, is_printed) = mpsc::channel();
        // The thread ends with this channel, and not before.
        let _ = printer.send(printed);
        is_printed
    };
    let failed = loop {
        match woken.recv() {
            Ok(Wake::Store) => drop(print()),
            Ok(Wake::Stop) | Err(_) => break None,
            Ok(Wake::Failed(error)) => break Some(error),
        }
    };
    running.stop();
    if let Some(error) = failed {
        tell(format_args!("informer: standard output: {error}"));
        return Ok(exit::LOST);
    }
    if print().recv_timeout(LAST_LINE_WITHIN).is_err() {
        tell(format_args!(
            "informer: standard output: nobody read it for {LAST_LINE_WITHIN:?}; the last lines are lost"
        ));
        return Ok(exit::LOST);
    }
    Ok(exit::DONE)
}
