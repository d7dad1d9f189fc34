//! The engine: a model, its KV memory and its slots, stepping. Lives on the executor's thread.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use mlx_sys::{Array, Device, async_eval, eval, fuse, memory, set_default_device};
use troupe_model_files::ModelFiles;
use troupe_protocol::{
    Binding, BlockId, CpuAffinity, CpuOptions, DeviceChoice, EngineInfo, EngineLimits, GpuStats, LoadRequest,
    Row, RowOutcome, RowOutput, RowTokens, SamplingParams, SequenceId, SlotId, StepId, StepMasks,
    StepOutcome, StepPlan, StoredBlock,
};
use troupe_sampler::Scratch;

use crate::batch::{Batch, vector};
use crate::budget::{self, Place};
use crate::error::{GpuError, Result};
use crate::kv::KvCache;
use crate::load::{Loader, Storage};
use crate::models::{ConfigReader, Model, family};
use crate::prompt_logprobs::{ScoredPrompts, Targets};
use crate::sampling::{Chosen, Sampled, sample};
use crate::slots::Slots;
use crate::store::{Basis, BlockStore, Medium};
use crate::transfer::{self, Saves};
use crate::unsampled::{Unsampled, Wanted};

/// Freed buffers that MLX may keep for reuse on the CPU: enough for a step's intermediate values.
const CPU_CACHE_BYTES: usize = 64 << 20;

/// A loaded model that steps.
pub struct Engine {
    model: Box<dyn Model>,
    kv: KvCache,
    slots: Slots,
    store: Option<BlockStore>,
    info: EngineInfo,
    in_flight: VecDeque<InFlight>,
    /// For tokens that the host chooses.
    scratch: Scratch,
    steps: u64,
}

/// A submitted step.
struct InFlight {
    step: StepId,
    /// Of each sampled row, in the order of the batch: its index in the plan, and its sequence.
    rows: Vec<(usize, SequenceId)>,
    output: Output,
    prompts: Option<ScoredPrompts>,
    saves: Option<Saves>,
}

/// What has to be computed before a step is done.
enum Output {
    /// Nothing.
    None,
    /// Logits, and masks that are to come.
    Unsampled(Unsampled),
    /// Tokens.
    Sampled(Sampled),
    /// Nothing but keys and values: these hidden states depend on the last of them.
    Hidden(Array),
}

impl Output {
    /// What is computed, or will be.
    fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::None => vec![],
            Self::Unsampled(unsampled) => vec![unsampled.logits()],
            Self::Sampled(sampled) => sampled.outputs(),
            Self::Hidden(hidden) => vec![hidden],
        }
    }
}

impl Engine {
    /// Loads a model. `progress` is told tensors done and tensors in all.
    ///
    /// # Errors
    /// Files that cannot be used, a device that is not there, or memory that does not suffice.
    pub fn load(request: &LoadRequest, progress: &mut dyn FnMut(u32, u32)) -> Result<Self> {
        let device = choose_device(request.device)?;
        budget::check_kv_size(request, device)?;
        if device == Device::Cpu {
            set_up_threads(request.cpu)?;
        }
        let files = ModelFiles::open(&request.path)?;
        let config = ConfigReader::new(files.config().clone());
        let family = family(&config)?;
        let storage = Storage::resolve(request, device, &files)?;
        let kinds = (family.cache)(&config)?;
        let body = storage.kv_body(device);
        let place = Place { device, dtype: body.dtype(request.kv_cache_dtype, storage.kv_dtype())?, body };
        let basis = Basis { files: &files, storage, kinds: &kinds, place, block_size: request.block_size };
        let (store, stored) = open_store(request, &basis)?;
        let mut loader = Loader::new(&files, storage, progress);
        let model = (family.load)(&config, &mut loader)?;
        loader.finish(request.cpu.activations)?;
        let weight_bytes = loader.bytes();
        // Mapped pages of the files would count as resident.
        drop(files);
        memory::clear_cache();

        let vocab_size = config.size("vocab_size")?;
        let (mut limits, shape) = budget::plan(request, &config, &kinds, place)?;
        limits.num_stored_blocks = store.as_ref().map_or(0, BlockStore::num_blocks);
        let kv = KvCache::new(kinds, shape)?;
        let info = EngineInfo {
            architecture: family.model_type.to_owned(),
            device: device.name()?,
            limits,
            weight_bytes,
            kv_bytes: kv.nbytes(),
            stored,
        };
        let slots = Slots::new(limits.max_num_seqs as usize, vocab_size)?;
        let (in_flight, scratch) = (VecDeque::new(), Scratch::default());
        let mut engine = Self { model, kv, slots, store, info, in_flight, scratch, steps: 0 };
        engine.probe()?;
        engine.settle()?;
        Ok(engine)
    }

    /// Computes one token and throws it away: weights that give no numbers are found before a client meets them,
    /// and devices that compile their kernels at first use do it now.
    fn probe(&mut self) -> Result<()> {
        let sampling = SamplingParams { logprobs: Some(0), ..SamplingParams::greedy() };
        let (step, slot) = (StepId(0), SlotId(0));
        self.submit(&StepPlan {
            step,
            saves: Vec::new(),
            loads: Vec::new(),
            bindings: vec![Binding { slot, sampling, history: None, max_len: 1 }],
            rows: vec![Row {
                sequence: SequenceId(0),
                slot,
                start: 0,
                tokens: RowTokens::Prompt(vec![0]),
                blocks: vec![BlockId(0)],
                targets: Vec::new(),
                output: RowOutput::Sample,
                mask: None,
            }],
        })?;
        let outcome = self.finish().transpose().map_err(|(_, error)| error)?;
        self.steps = 0;
        let logprob =
            outcome.and_then(|outcome| outcome.rows.first()?.token.logprobs.as_ref().map(|l| l.chosen));
        if logprob.is_some_and(f32::is_finite) { Ok(()) } else { Err(GpuError::NotFinite) }
    }

    /// Evaluates what loading left lazy, so that the first request does not pay for it.
    fn settle(&mut self) -> Result<()> {
        eval(&self.kv.arrays().collect::<Vec<_>>())?;
        memory::clear_cache();
        memory::reset_peak();
        Ok(())
    }

    /// What was loaded.
    pub fn info(&self) -> &EngineInfo {
        &self.info
    }

    /// The engine's bounds.
    pub fn limits(&self) -> &EngineLimits {
        &self.info.limits
    }

    /// Memory and progress.
    pub fn stats(&self) -> GpuStats {
        GpuStats {
            steps: self.steps,
            active_bytes: memory::active() as u64,
            peak_bytes: memory::peak() as u64,
            cache_bytes: memory::cache() as u64,
        }
    }

    /// Builds a step's graph and starts its evaluation.
    ///
    /// # Errors
    /// A plan that contradicts what the engine holds, or MLX's error. Call [`Self::reset`] then.
    pub fn submit(&mut self, plan: &StepPlan) -> Result<()> {
        let saves = Saves::start(&self.kv, &plan.saves)?;
        transfer::load(&mut self.kv, self.store.as_ref(), &plan.loads)?;
        if plan.rows.is_empty() && saves.is_some() {
            let (rows, output, prompts) = (Vec::new(), Output::None, None);
            self.in_flight.push_back(InFlight { step: plan.step, rows, output, prompts, saves });
            return Ok(());
        }
        for binding in &plan.bindings {
            self.slots.bind(binding)?;
        }
        let batch = Batch::new(plan, &self.slots, &self.info.limits)?;
        let last = plan.rows.iter().flat_map(|row| &row.blocks).map(|block| block.0 as usize).max();
        self.kv.used(last.map_or(0, |last| last + 1));
        let hidden = fuse(&self.model.forward(&batch, &mut self.kv)?)?;
        let targets = Targets::of(plan, &batch, &self.slots)?;
        let logits = |hidden: &Array| Ok(fuse(&self.model.logits(hidden)?)?);
        let prompts = targets.map(|targets| targets.score(&hidden, logits)).transpose()?;
        let (rows, output) = self.sample(plan, &batch, hidden)?;
        let mut outputs = output.arrays();
        outputs.extend(prompts.iter().flat_map(ScoredPrompts::outputs));
        outputs.extend(self.kv.arrays());
        outputs.push(self.slots.last_tokens());
        async_eval(&outputs)?;
        self.in_flight.push_back(InFlight { step: plan.step, rows, output, prompts, saves });
        Ok(())
    }

    /// Answers whose tokens are sampled, as [`InFlight::rows`] has it, and what gives them.
    fn sample(
        &mut self,
        plan: &StepPlan,
        batch: &Batch,
        hidden: Array,
    ) -> Result<(Vec<(usize, SequenceId)>, Output)> {
        let rows = Wanted::of(plan, batch);
        if rows.is_empty() {
            return Ok((Vec::new(), Output::Hidden(hidden)));
        }
        let wanted = batch.sampled_tokens();
        let hidden = if wanted.len() as i32 == batch.num_tokens() {
            hidden
        } else {
            hidden.take(&vector(&wanted)?, 0)?
        };
        let unsampled = Unsampled::new(fuse(&self.model.logits(&hidden)?)?, rows);
        if unsampled.waits() {
            return Ok((Vec::new(), Output::Unsampled(unsampled)));
        }
        self.choose(plan.step, &unsampled)
    }

    /// The same where no row waits for its mask.
    fn choose(&mut self, step: StepId, unsampled: &Unsampled) -> Result<(Vec<(usize, SequenceId)>, Output)> {
        let rows: Vec<_> = unsampled.rows().iter().map(Wanted::sample_row).collect();
        let sampled = sample(unsampled.logits(), &rows, &mut self.slots)?;
        if let Some((slots, tokens)) = sampled.on_device() {
            self.slots.keep(step, slots, tokens)?;
        }
        let owners = unsampled.rows().iter().map(|row| (row.index, row.sequence)).collect();
        Ok((owners, Output::Sampled(sampled)))
    }

    /// Starts the sampling of the step submitted last, if it waits for these masks. Masks of a step that is not there are
    /// ignored: it has failed.
    ///
    /// # Errors
    /// Masks that do not fit the step, or MLX's error. The step is forgotten; call [`Self::reset`] then.
    pub fn give_masks(&mut self, masks: StepMasks) -> Result<()> {
        let step = masks.step;
        let waits = |last: &mut InFlight| last.step == step && matches!(last.output, Output::Unsampled(_));
        let Some(InFlight { output: Output::Unsampled(unsampled), prompts, saves, .. }) =
            self.in_flight.pop_back_if(waits)
        else {
            return Ok(());
        };
        let unsampled = unsampled.masked(masks, self.info.limits.vocab_size)?;
        let (rows, output) = if unsampled.rows().is_empty() {
            (Vec::new(), Output::Hidden(unsampled.logits().clone()))
        } else {
            self.choose(step, &unsampled)?
        };
        let mut outputs = output.arrays();
        outputs.push(self.slots.last_tokens());
        async_eval(&outputs)?;
        self.in_flight.push_back(InFlight { step, rows, output, prompts, saves });
        Ok(())
    }

    /// Steps in flight.
    pub fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether the oldest step in flight is computed, so that [`Self::finish`] would not wait.
    pub fn is_oldest_done(&self) -> bool {
        self.in_flight.front().is_some_and(|step| {
            let waits = matches!(step.output, Output::Unsampled(_));
            let prompts = step.prompts.iter().flat_map(ScoredPrompts::outputs);
            let computed = || step.output.arrays().into_iter().chain(prompts).all(Array::is_available);
            !waits && computed() && step.saves.as_ref().is_none_or(Saves::are_available)
        })
    }

    /// Waits for the oldest step in flight, if there is one, and reads what it sampled.
    ///
    /// # Errors
    /// The step, and why its evaluation failed. Call [`Self::reset`] then.
    pub fn finish(&mut self) -> Option<Result<StepOutcome, (StepId, GpuError)>> {
        let in_flight = self.in_flight.pop_front()?;
        let step = in_flight.step;
        self.steps += 1;
        Some(self.outcome(in_flight).map_err(|error| (step, error)))
    }

    fn outcome(&mut self, in_flight: InFlight) -> Result<StepOutcome> {
        let InFlight { step, rows, output, prompts, saves } = in_flight;
        let tokens = match output {
            Output::None => Vec::new(),
            Output::Unsampled(_) => return Err(GpuError::Step("its masks did not come".to_owned())),
            Output::Sampled(sampled) => sampled.read(&mut self.scratch)?,
            Output::Hidden(hidden) => hidden.wait().map(|()| Vec::new())?,
        };
        let prompts = prompts.map_or(Ok(Vec::new()), |prompts| prompts.read())?;
        let unsaved = match saves {
            Some(saves) => saves.finish(self.store.as_mut())?,
            None => Vec::new(),
        };
        let mut sampled: Vec<_> = rows.into_iter().zip(tokens).collect();
        sampled.sort_by_key(|((index, _), _)| *index);
        let rows = sampled.into_iter().map(|((_, sequence), Chosen { token, mu })| RowOutcome {
            sequence,
            token,
            mu,
        });
        Ok(StepOutcome { step, rows: rows.collect(), prompts, unsaved })
    }

    /// Forgets all steps in flight, slots and KV contents after a failure; the model stays. Answers the steps
    /// that were forgotten, oldest first.
    ///
    /// # Errors
    /// If MLX cannot give KV memory again.
    pub fn reset(&mut self) -> Result<Vec<StepId>> {
        let forgotten = self.in_flight.drain(..).map(|step| step.step).collect();
        self.slots =
            Slots::new(self.info.limits.max_num_seqs as usize, self.info.limits.vocab_size as usize)?;
        self.kv.reset()?;
        Ok(forgotten)
    }
}

impl Drop for Engine {
    /// Waits for what is in flight: it writes into memory that goes now.
    fn drop(&mut self) {
        // Nobody is left to hear of an error.
        let _ = mlx_sys::synchronize();
    }
}

/// The block store that is wanted, and what it holds.
fn open_store(request: &LoadRequest, basis: &Basis<'_>) -> Result<(Option<BlockStore>, Vec<StoredBlock>)> {
    let Some(wanted) = &request.store else { return Ok((None, Vec::new())) };
    let bytes_per_token: u64 = basis.kinds.iter().map(|kind| kind.bytes_per_token(basis.place.dtype)).sum();
    let block_bytes = bytes_per_token as usize * basis.block_size as usize;
    let (store, stored) = BlockStore::open(Medium::choose(wanted, basis)?, wanted.bytes, block_bytes)?;
    Ok((Some(store), stored))
}

fn set_up_threads(options: CpuOptions) -> Result<()> {
    mlx_sys::set_cpu_affinity(match options.affinity {
        CpuAffinity::Pinned => mlx_sys::CpuAffinity::Pinned,
        CpuAffinity::Free => mlx_sys::CpuAffinity::Free,
    });
    let Some(threads) = options.threads else { return Ok(()) };
    let wanted = NonZeroUsize::new(threads as usize).filter(|_| threads <= CpuOptions::MAX_THREADS);
    Ok(mlx_sys::set_cpu_threads(wanted.ok_or(GpuError::Threads { threads })?)?)
}

fn choose_device(choice: DeviceChoice) -> Result<Device> {
    let device = match choice {
        DeviceChoice::Cpu => Device::Cpu,
        DeviceChoice::Auto if !Device::Gpu.is_available() => Device::Cpu,
        DeviceChoice::Auto | DeviceChoice::Gpu => Device::Gpu,
    };
    if !device.is_available() {
        return Err(GpuError::NoGpu { version: mlx_sys::version() });
    }
    set_default_device(device)?;
    if device == Device::Cpu {
        memory::set_cache_limit(CPU_CACHE_BYTES)?;
    }
    Ok(device)
}
