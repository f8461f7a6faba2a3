//! `informer serve`: the simulated API server on a loopback port.

use crate::{Refusal, exit};
use clap::Args;
use informer_sim::fill::{Churn, Fill};
use informer_sim::serve::Served;
use informer_sim::{Config, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};

#[derive(Args)]
pub(crate) struct Options {
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Fill a resource with N objects of about BYTES bytes, as in pods=1000:6900; may stand several times
    #[arg(long = "resource", value_name = "RESOURCE=N:BYTES")]
    resources: Vec<Fill>,
    /// Update so many random objects of each filled resource per second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 0)]
    churn: u32,
    /// What the objects look like and which ones change
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(options: Options) -> Result<u8, Refusal> {
    let mut server = Server::new(Config { seed: options.seed, ..Config::default() });
    server.register_common();
    let mut filled = Vec::new();
    for fill in &options.resources {
        filled.push(fill.apply(&mut server, options.seed)?);
    }
    // Not before: a signal ends a fill that takes too long, or more memory than there is, as it ends any process.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let churns: Vec<_> = filled
        .iter()
        .filter(|_| options.churn > 0)
        .map(|resource| Churn::new(&server, resource, options.churn, options.seed))
        .collect();
    let mut served = Served::start(server, SocketAddr::from((Ipv4Addr::LOCALHOST, options.port)))?;
    for churn in churns {
        served.churn(churn);
    }
    let mut out = io::stdout();
    writeln!(out, "listening on {}", served.url()).and_then(|()| out.flush())?;
    signals.forever().next();
    served.stop();
    Ok(exit::DONE)
}
