// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `check` and `run` are told to guard, as it is typed.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use tidegate_datapath::configuration::Guarded;
use tidegate_policy::mechanism;

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::setting::Written;
use crate::{fin, hook, run, setting};

/// What to guard: a configuration file, or one listener.
#[derive(Args)]
pub struct What {
    /// The configuration file. This or --port.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "address", "mechanism", "fin", "hook", "interface"])]
    config: Option<PathBuf>,
    /// The port of the listener. This or --config.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    port: Option<u16>,
    /// Its address [default: every one].
    #[arg(long, requires = "port")]
    address: Option<IpAddr>,
    /// The mechanism: auto, default, abort, reserv, lazy, rst-syn, no-syn-drop, early-syn-drop, or several
    /// in quotes, as in "abort rst-syn".
    #[arg(long, requires = "port", default_value = mechanism::DEFAULT)]
    mechanism: String,
    /// What a client's FIN does: half-close, rst-fin or "rst-fin strict".
    #[arg(long, requires = "port", default_value = "half-close")]
    fin: String,
    /// Where SYNs are judged: auto, driver, ip or tcp.
    #[arg(long, requires = "port", default_value = "auto")]
    hook: String,
    /// An interface to guard, may be repeated [default: those with an address of the listener].
    #[arg(long, requires = "port")]
    interface: Vec<String>,
}

impl What {
    fn arguments(&self) -> Result<Option<Config>> {
        let Some(port) = self.port else { return Ok(None) };
        let wrong = |(what, fix)| Failure::Argument { what, fix };
        if let Some(address) = self.address {
            setting::address(Written::AsOption, address, false).map_err(wrong)?;
        }
        let mut rules = mechanism::parse(&self.mechanism)
            .map_err(|wrong| Failure::argument(wrong.what, wrong.fix))?;
        rules.fin = fin::parse(Written::AsOption, &self.fin).map_err(wrong)?;
        let hook = hook::parse(Written::AsOption, &self.hook, &rules).map_err(wrong)?;
        let guards =
            vec![Guarded { address: self.address, port, rules, hook, ..Default::default() }];
        Ok(Some(Config { guards, interfaces: self.interface.clone(), ..Default::default() }))
    }

    /// Where it comes from; `None` where nothing is named.
    pub fn source(self) -> Result<Option<run::Source>> {
        match self.config {
            Some(path) => Ok(Some(run::Source::File(path))),
            None => Ok(self.arguments()?.map(run::Source::Arguments)),
        }
    }

    /// The same, of a command that cannot do without.
    pub fn required(self) -> Result<run::Source> {
        self.source()?.ok_or_else(|| {
            Failure::argument("nothing to guard is named", "give --config FILE or --port P")
        })
    }
}
