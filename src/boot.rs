//! Wiring: the one place that knows everybody. Starts the company, serves until it is told to stop, ends in order.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix::prelude::*;
use anyhow::{Context as _, Result, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use troupe_actors::executor::{EventSink, ExecutorHandle};
use troupe_actors::guide::Vocabulary;
use troupe_actors::metrics;
use troupe_actors::model_card::ModelCard;
use troupe_actors::output_syntax::OutputSyntax;
use troupe_actors::response_store::{ResponseStore, StoreOptions};
use troupe_actors::scheduler::{CacheShare, Config as SchedulerBounds, SchedulerActor, SchedulerCommand};
use troupe_actors::supervisor::{EngineState, Shutdown, Supervisor};
use troupe_actors::template::ChatTemplate;
use troupe_actors::tokenizer::Tokenizer;
use troupe_actors::tokenizer_pool::TokenizerPool;
use troupe_config::{
    CacheConfig, CacheShare as Share, Config, CpuActivations, CpuAffinity, CpuConfig, Device,
    KvCacheDtype as KvDtype, ResponsesConfig, Weights,
};
use troupe_gpu::Executor;
use troupe_model_files::{GenerationDefaults, ModelFiles};
use troupe_protocol::{
    Activations, CpuOptions, DeviceChoice, EngineInfo, Fault, KvCacheDtype, LoadRequest, StoreRequest,
    WeightDtype,
};

use crate::http::{self, AppState, HttpOptions, Served};
use crate::stop_signals::StopSignals;
use crate::tenancy::Tenancy;
use crate::{cache_key, logging, progress};

/// Reads the configuration again, from where it came from.
pub type Reload = Box<dyn Fn() -> Result<Config>>;

/// Serves a model over HTTP until SIGTERM or SIGINT. At SIGHUP, the configuration is read again.
///
/// # Errors
/// An address that cannot be listened on, a model that cannot be loaded, or an engine that keeps failing.
pub fn serve(config: Config, reload: Reload) -> Result<()> {
    let _log = logging::start(&config);
    let address = (config.server.host.as_str(), config.server.port);
    let listener = TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {}:{} (choose with --host and --port)", address.0, address.1)
    })?;
    let metrics = metrics::install().context("cannot install the metrics recorder")?;
    System::new().block_on(serve_on(listener, metrics, config, reload))
}

async fn serve_on(
    listener: TcpListener,
    metrics: metrics::PrometheusHandle,
    config: Config,
    reload: Reload,
) -> Result<()> {
    let mut stop = StopSignals::new()?;
    let hangup = signal(SignalKind::hangup())?;
    let address = listener.local_addr()?;
    // Before any actor of this thread: one that is dropped before it could begin takes the process down.
    let company = Company::start(&config)?;
    metrics::Upkeep(metrics.clone()).start();
    let (tenancy, policies) = Tenancy::new(&config);
    company.scheduler.do_send(SchedulerCommand::Configure(policies));
    let state = AppState {
        scheduler: company.scheduler.clone().recipient(),
        observe: company.scheduler.clone().recipient(),
        inspect: company.scheduler.clone().recipient(),
        tenants: tenancy.subscribe(),
        served: Arc::new(OnceLock::new()),
        responses: ResponseStore::start(store_options(&config.responses)).context("responses.dir")?,
        metrics,
        active: watch::Sender::new(0),
        body_limit: usize::try_from(config.server.max_body_bytes)?,
    };
    let (served, active) = (Arc::clone(&state.served), state.active.subscribe());
    let options =
        HttpOptions { workers: config.server.workers.unwrap_or_else(cores), ..HttpOptions::default() };
    let server = http::serve(listener, options, state)?;
    let handle = server.handle();
    actix::spawn(server);
    actix::spawn(reload_at(hangup, reload, tenancy, company.scheduler.clone()));

    let grace = Duration::from_secs(config.server.drain_timeout_seconds);
    let result = tokio::select! {
        result = company.serve_until_failure(&config, &served, address) => result,
        () = stop.received() => Ok(()),
    };
    if served.get().is_some() {
        let grace_s = grace.as_secs();
        tracing::info!(
            "shutting down: what runs may finish within {grace_s} s; a second signal ends it at once"
        );
    }
    // A second signal means now.
    tokio::select! {
        () = company.end(grace, active) => {}
        () = stop.received_again() => {
            tracing::warn!("told twice: leaving streams unfinished");
            // The executor's thread still computes, and the exit handlers of its libraries would run under it.
            signal_hook::low_level::exit(1);
        }
    }
    handle.stop(false).await;
    result
}

/// Takes over tenants and keys whenever the signal comes. What cannot be read changes nothing.
async fn reload_at(
    mut hangup: Signal,
    reload: Reload,
    mut tenancy: Tenancy,
    scheduler: Addr<SchedulerActor>,
) {
    while hangup.recv().await.is_some() {
        match reload() {
            Ok(config) => {
                if let Some((policies, directory)) = tenancy.read_again(&config) {
                    // The scheduler first: requests of a new tenant find its limits in place.
                    scheduler.do_send(SchedulerCommand::Configure(policies));
                    tenancy.publish(directory);
                }
            }
            Err(error) => tracing::error!("the configuration stays as it is: {error:#}"),
        }
    }
}

/// What a model is made of beside its weights.
struct Text {
    tokenizer: Arc<Tokenizer>,
    template: Option<Arc<ChatTemplate>>,
    output: OutputSyntax,
    defaults: GenerationDefaults,
}

impl Text {
    fn load(config: &Config) -> Result<Self> {
        let files = ModelFiles::open(config.model_path()?)?;
        let special = files.special_tokens();
        let tokenizer = Tokenizer::load(&files.tokenizer()?, special)?;
        let template = match &files.chat_templates().default {
            Some(source) => Some(Arc::new(ChatTemplate::new(source, &tokenizer.template_tokens(special))?)),
            None => None,
        };
        let (tools, reasoning) = (&config.model.tool_format, &config.model.reasoning_format);
        let source = template.as_ref().map(|template| template.source());
        let output = OutputSyntax::choose(tools, reasoning, source, &tokenizer)?;
        let defaults = files.generation_defaults().clone();
        Ok(Self { tokenizer: Arc::new(tokenizer), template, output, defaults })
    }
}

/// The actors of one process.
pub(crate) struct Company {
    pub(crate) scheduler: Addr<SchedulerActor>,
    supervisor: Addr<Supervisor>,
    engine: watch::Receiver<EngineState>,
}

impl Company {
    /// Starts scheduler, supervisor and executor, which begins to load the model.
    pub(crate) fn start(config: &Config) -> Result<Self> {
        let load = load_request(config)?;
        let queue = SchedulerBounds {
            max_queued: config.scheduler.max_queued,
            step_growth: config.scheduler.step_growth_percent,
            long_prompt_share: config.scheduler.long_prompt_share_percent,
            cache: match config.cache.share {
                Share::Tenant => CacheShare::Tenant,
                Share::Server => CacheShare::Server,
                Share::Off => CacheShare::Off,
            },
            cache_key: match &config.cache.dir {
                Some(dir) => cache_key::kept_in(dir)?,
                None => cache_key::draw(),
            },
            ..SchedulerBounds::default()
        };
        // A thread of its own: a step's bookkeeping never waits for HTTP.
        let scheduler =
            SchedulerActor::start_in_arbiter(&Arbiter::new().handle(), move |_| SchedulerActor::new(queue));
        let (supervisor, engine) = Supervisor::new(Box::new(start_executor), load, scheduler.clone());
        Ok(Self { scheduler, supervisor: supervisor.start(), engine })
    }

    /// Waits for the engine, then makes the model known. Tokenizer and template are read meanwhile, so
    /// that a fault in them is reported before minutes of loading.
    pub(crate) async fn ready(
        &self,
        config: &Config,
        progress: impl FnMut(u32, u32),
    ) -> Result<(EngineInfo, Served)> {
        let reader = config.clone();
        let text = tokio::task::spawn_blocking(move || Text::load(&reader)).await??;
        let info = self.wait_for_engine(config, progress).await?;
        let card = Arc::new(ModelCard {
            id: config.model_id(),
            aliases: config.model.aliases.clone(),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            limits: info.limits,
            tokenizer: Arc::clone(&text.tokenizer),
            vocabulary: Arc::new(Vocabulary::new(Arc::clone(&text.tokenizer), info.limits.vocab_size)),
            template: text.template.clone(),
            output: text.output,
            defaults: text.defaults,
        });
        let threads = config.tokenizer.threads;
        let pool = TokenizerPool::start(threads, text.tokenizer, text.template, info.limits.max_model_len);
        Ok((info, Served { card, pool }))
    }

    async fn wait_for_engine(
        &self,
        config: &Config,
        mut progress: impl FnMut(u32, u32),
    ) -> Result<EngineInfo> {
        let mut engine = self.engine.clone();
        loop {
            match &*engine.borrow_and_update() {
                EngineState::Loading { done, total } => progress(*done, *total),
                EngineState::Ready(info) => return Ok(info.clone()),
                EngineState::Failed(fault) => return Err(failure(fault, config)),
            }
            engine.changed().await.context("the supervisor is gone")?;
        }
    }

    /// Serves, and returns only if the engine fails for good.
    async fn serve_until_failure(
        &self,
        config: &Config,
        served: &OnceLock<Served>,
        address: SocketAddr,
    ) -> Result<()> {
        let (info, model) = self.ready(config, progress::loading()).await?;
        let card = Arc::clone(&model.card);
        // Set once: this function runs once a process.
        let _ = served.set(model);
        announce(&info, &card, address);
        let mut engine = self.engine.clone();
        let failed = |state: &EngineState| matches!(state, EngineState::Failed(_));
        match &*engine.wait_for(failed).await.context("the supervisor is gone")? {
            EngineState::Failed(fault) => Err(failure(fault, config)),
            _ => Ok(()),
        }
    }

    /// Lets sequences finish within `grace` and their answers leave, then stops the executor.
    async fn end(&self, grace: Duration, mut active: watch::Receiver<usize>) {
        // An error means that the actor is gone already.
        let _ = self.supervisor.send(Shutdown { grace }).await;
        let flushed = active.wait_for(|count| *count == 0);
        if tokio::time::timeout(FLUSH_TIMEOUT, flushed).await.is_err() {
            tracing::warn!("some clients did not take their answers");
        }
    }

    /// Stops the executor of a company that serves nobody else.
    pub(crate) async fn stop(&self) {
        let _ = self.supervisor.send(Shutdown { grace: Duration::ZERO }).await;
    }
}

/// Why the engine failed. An option that is to blame is told with its place, as errors of the configuration are.
fn failure(fault: &Fault, config: &Config) -> anyhow::Error {
    match fault {
        Fault::Load { message, option: Some(option) } => anyhow!("{}: {message}", config.origin(option)),
        other => anyhow!(other.clone()),
    }
}

/// The longest that clients get to take the last bytes of their answers.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

fn start_executor(sink: EventSink) -> std::io::Result<ExecutorHandle> {
    let executor = Executor::start(sink)?;
    let (data, urgent) = (executor.data.clone(), executor.urgent.clone());
    Ok(ExecutorHandle { data, urgent, join: Box::new(move || executor.join()) })
}

fn load_request(config: &Config) -> Result<LoadRequest> {
    let path = config.model_path()?;
    let engine = &config.engine;
    Ok(LoadRequest {
        path: path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned(),
        device: match engine.device {
            Device::Auto => DeviceChoice::Auto,
            Device::Cpu => DeviceChoice::Cpu,
            Device::Gpu => DeviceChoice::Gpu,
        },
        weights: match engine.weights {
            Weights::Auto => WeightDtype::Auto,
            Weights::Stored => WeightDtype::Stored,
            Weights::F32 => WeightDtype::F32,
        },
        kv_cache_dtype: match engine.kv_cache_dtype {
            KvDtype::Auto => KvCacheDtype::Auto,
            KvDtype::F32 => KvCacheDtype::F32,
            KvDtype::F16 => KvCacheDtype::F16,
            KvDtype::Bf16 => KvCacheDtype::Bf16,
            KvDtype::Int8 => KvCacheDtype::Int8,
        },
        max_model_len: engine.max_model_len,
        max_num_seqs: engine.max_num_seqs,
        max_num_batched_tokens: engine.max_num_batched_tokens,
        block_size: engine.block_size,
        kv_cache_bytes: engine.kv_cache_memory,
        store: store_request(&config.cache)?,
        cpu: cpu_options(&config.cpu),
    })
}

fn store_request(cache: &CacheConfig) -> Result<Option<StoreRequest>> {
    let Some(bytes) = cache.bytes() else { return Ok(None) };
    let dir = cache.dir.as_deref().map(|dir| {
        let text = dir.to_str().with_context(|| format!("cache.dir: {} is not UTF-8", dir.display()))?;
        Ok::<_, anyhow::Error>(text.to_owned())
    });
    Ok(Some(StoreRequest { dir: dir.transpose()?, bytes }))
}

fn store_options(responses: &ResponsesConfig) -> StoreOptions {
    StoreOptions {
        dir: responses.dir.clone(),
        max_bytes: responses.bytes(),
        max_age_s: u64::from(responses.max_age_days) * 86_400,
    }
}

fn cpu_options(cpu: &CpuConfig) -> CpuOptions {
    CpuOptions {
        threads: cpu.threads,
        affinity: match cpu.affinity {
            CpuAffinity::Pinned => troupe_protocol::CpuAffinity::Pinned,
            CpuAffinity::Free => troupe_protocol::CpuAffinity::Free,
        },
        activations: match cpu.activations {
            CpuActivations::Auto => None,
            CpuActivations::Int8 => Some(Activations::Int8),
            CpuActivations::Int16 => Some(Activations::Int16),
            CpuActivations::F32 => Some(Activations::F32),
        },
    }
}

/// Tells whoever started the server what it serves, and how to try it.
fn announce(info: &EngineInfo, card: &ModelCard, address: SocketAddr) {
    let (id, limits) = (&card.id, &info.limits);
    let (tool_format, reasoning_format) = card.output.names();
    tracing::info!(
        model = id.as_str(),
        architecture = info.architecture.as_str(),
        device = info.device.as_str(),
        weights_mib = info.weight_bytes >> 20,
        kv_mib = info.kv_bytes >> 20,
        max_model_len = limits.max_model_len,
        max_num_seqs = limits.max_num_seqs,
        tool_format,
        reasoning_format,
        "ready on http://{address}"
    );
    // A reader that is gone needs no advice.
    let _ = writeln!(
        std::io::stderr(),
        "\nTry it:\n\n  curl -N http://{address}/v1/chat/completions -H 'content-type: application/json' \\\n    \
         -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is the capital of France?\"}}], \"temperature\": 0, \"stream\": true}}'\n"
    );
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}
