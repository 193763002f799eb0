//! The scheduler: which requests a step computes, and what comes of it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::counters::Counters;
use super::event::KvEvent;
use super::hash::{self, Chain};
use super::pool::{BlockId, BlockPool};
use super::request::{Finish, Phase, Request, RequestId, Space, Submission, SubmitError};
use super::seen::Seen;
use super::step_time::StepWork;
use super::{ConfigError, EngineConfig};

/// Hashes kept to tell recomputation from computation: 4 Mi blocks of 16 tokens are 160 times the KV of an
/// A100 with an 8B model, and the memory stays under 100 MB.
const SEEN_BLOCKS: usize = 1 << 22;

/// One engine in virtual time.
#[derive(Debug)]
pub struct Engine {
    pub(super) config: EngineConfig,
    chain: Chain,
    pub(super) pool: BlockPool,
    pub(super) waiting: VecDeque<Request>,
    pub(super) running: Vec<Request>,
    next_id: u64,
    step: Option<Step>,
    events: Vec<KvEvent>,
    seen: Seen,
    counters: Counters,
}

/// The step under way.
#[derive(Debug, Default)]
struct Step {
    seconds: f64,
    work: StepWork,
    preempted: Vec<RequestId>,
}

/// What a step brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutput {
    /// The tokens, at most one for each request.
    pub tokens: Vec<Emitted>,
    /// Requests whose blocks were taken away when the step began.
    pub preempted: Vec<RequestId>,
    /// What changed in the cache since the step before.
    pub events: Vec<KvEvent>,
}

/// One generated token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Whose token it is.
    pub id: RequestId,
    /// The token's id.
    pub token: u32,
    /// Its place in the output, from 0.
    pub index: u32,
    /// Why the request ended, if this was its last token.
    pub finished: Option<Finish>,
    /// Prompt tokens that were found in the cache.
    pub cached_tokens: u32,
}

/// How loaded an engine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that run.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Blocks that requests use; cached blocks that none uses do not count.
    pub used_blocks: u32,
    /// Blocks there are.
    pub usable_blocks: u32,
}

impl Load {
    /// The share of blocks in use, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        f64::from(self.used_blocks) / f64::from(self.usable_blocks.max(1))
    }
}

impl Engine {
    /// An idle engine with an empty cache.
    ///
    /// # Errors
    /// What [`EngineConfig::check`] refuses.
    pub fn new(config: EngineConfig) -> Result<Engine, ConfigError> {
        config.check()?;
        Ok(Engine {
            chain: Chain::new(config.block_size, config.hash_seed),
            pool: BlockPool::new(config.num_blocks),
            waiting: VecDeque::new(),
            running: Vec::new(),
            next_id: 0,
            step: None,
            events: Vec::new(),
            seen: Seen::new(SEEN_BLOCKS),
            counters: Counters::default(),
            config,
        })
    }

    /// What the engine is made of.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Totals since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How loaded the engine is.
    pub fn load(&self) -> Load {
        let usable = self.pool.usable();
        Load {
            running: self.running.len(),
            waiting: self.waiting.len(),
            used_blocks: usable - self.pool.free(),
            usable_blocks: usable,
        }
    }

    /// Prompt tokens that a request would find in the cache at this moment.
    pub fn overlap(&self, prompt: &[u32], space: &Space) -> u32 {
        let mut hashes = Vec::new();
        self.chain.extend(self.chain.root(space), prompt, &mut hashes);
        self.hits(&hashes, prompt.len() as u32).len() as u32 * self.config.block_size
    }

    /// Takes a request in, at the end of the queue.
    ///
    /// # Errors
    /// [`SubmitError`] for a prompt that is empty or leaves no room in the window, or no output.
    pub fn submit(&mut self, submission: Submission, now: f64) -> Result<RequestId, SubmitError> {
        let Submission { prompt, output_tokens, finish, space } = submission;
        let max_model_len = self.config.max_model_len;
        match prompt.len() {
            0 => return Err(SubmitError::EmptyPrompt),
            tokens if tokens >= max_model_len as usize => {
                return Err(SubmitError::PromptTooLong { tokens, max_model_len });
            }
            _ if output_tokens == 0 => return Err(SubmitError::NoOutput),
            _ => {}
        }
        let root = self.chain.root(&space);
        let mut hashes = Vec::new();
        self.chain.extend(root, &prompt, &mut hashes);
        let tail = hashes.len() * self.config.block_size as usize;
        let output_seed = self.chain.next(hashes.last().copied().unwrap_or(root), &prompt[tail..]);
        let room = max_model_len - prompt.len() as u32;
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back(Request {
            id,
            prompt,
            outputs: Vec::new(),
            output_tokens: output_tokens.min(room),
            finish: if output_tokens > room { Finish::Length } else { finish },
            space,
            root,
            hashes,
            output_seed,
            phase: Phase::Waiting,
            in_step: false,
            computed: 0,
            blocks: Vec::new(),
            stored: 0,
            cached_tokens: None,
            arrived: now,
            admitted: now,
            first_token: now,
            last_token: now,
        });
        Ok(id)
    }

    /// Forgets a request and frees its blocks at once; whether there was one.
    pub fn abort(&mut self, id: RequestId) -> bool {
        let request = if let Some(at) = self.running.iter().position(|request| request.id == id) {
            self.running.remove(at)
        } else if let Some(at) = self.waiting.iter().position(|request| request.id == id) {
            let Some(request) = self.waiting.remove(at) else { return false };
            request
        } else {
            return false;
        };
        self.pool.release(&request.blocks);
        self.counters.aborted += 1;
        true
    }

    /// Forgets every cached block; whether it did. It does not while requests hold blocks, unless `force`
    /// sends them back to the queue first. The event comes with the next step's.
    pub fn reset_prefix_cache(&mut self, force: bool) -> bool {
        while let Some(request) = if force { self.running.pop() } else { None } {
            self.preempt(request);
        }
        let cleared = self.pool.clear();
        if cleared && self.config.kv_events {
            self.events.push(KvEvent::Cleared);
        }
        cleared
    }

    /// Plans the next step and says how many seconds it takes; none when there is nothing to compute or a
    /// step is under way.
    pub fn begin_step(&mut self, now: f64) -> Option<f64> {
        if self.step.is_some() {
            return None;
        }
        let mut step = Step::default();
        let mut budget = self.config.max_num_batched_tokens;
        self.continue_running(&mut budget, &mut step);
        if step.preempted.is_empty() {
            self.admit_waiting(&mut budget, &mut step, now);
        }
        if step.work.tokens() == 0 {
            return None;
        }
        step.seconds = step.work.seconds(&self.config.step_time);
        let seconds = step.seconds;
        self.step = Some(step);
        Some(seconds)
    }

    /// Ends the step under way at `now`: gives out its tokens and lets go of the requests that finished.
    pub fn end_step(&mut self, now: f64) -> StepOutput {
        let Some(step) = self.step.take() else { return StepOutput::default() };
        self.counters.step(&step.work, step.seconds, &self.config.step_time);
        let mut tokens = Vec::with_capacity(self.running.len());
        let Engine { running, pool, chain, counters, config, .. } = self;
        running.retain_mut(|request| {
            let had_turn = std::mem::take(&mut request.in_step);
            if !had_turn || request.computed < request.tokens() {
                return true;
            }
            let emitted = request.emit(chain, config);
            counters.token(request, now);
            if emitted.finished.is_some() {
                pool.release(&request.blocks);
            }
            tokens.push(emitted);
            emitted.finished.is_none()
        });
        StepOutput { tokens, preempted: step.preempted, events: std::mem::take(&mut self.events) }
    }

    /// Gives each running request its tokens, in order; who is last goes when blocks are short.
    fn continue_running(&mut self, budget: &mut u32, step: &mut Step) {
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let request = &self.running[at];
            let tokens = (request.tokens() - request.computed).min(*budget);
            let blocks = (request.computed + tokens).div_ceil(self.config.block_size);
            let needed = blocks - request.blocks.len() as u32;
            while self.pool.free() < needed {
                let Some(last) = self.running.pop() else { return };
                step.preempted.push(last.id);
                self.preempt(last);
                if at == self.running.len() {
                    return;
                }
            }
            self.compute(at, tokens, step);
            *budget -= tokens;
            at += 1;
        }
    }

    /// Admits from the head of the queue while budget and seats last; a head without room blocks the rest.
    fn admit_waiting(&mut self, budget: &mut u32, step: &mut Step, now: f64) {
        while *budget > 0 && self.running.len() < self.config.max_num_seqs as usize {
            let Some(head) = self.waiting.front() else { return };
            let hits = self.hits(&head.hashes, head.tokens());
            let cached = hits.len() as u32 * self.config.block_size;
            let tokens = (head.tokens() - cached).min(*budget);
            let reach = if self.config.reserve_full_prompt { head.tokens() } else { cached + tokens };
            // A hit on a block that nobody uses takes it out of the free ones, too.
            let new = reach.div_ceil(self.config.block_size) as usize - hits.len();
            let idle = hits.iter().filter(|&&block| self.pool.is_free(block)).count();
            if new + idle > self.pool.free() as usize {
                return;
            }
            let Some(mut request) = self.waiting.pop_front() else { return };
            hits.iter().for_each(|&block| self.pool.hit(block));
            self.counters.admitted(&request, cached);
            request.admit(hits, cached, now);
            self.running.push(request);
            self.compute(self.running.len() - 1, tokens, step);
            *budget -= tokens;
        }
    }

    /// The cached blocks a request of `tokens` tokens starts with; its last token is always computed.
    fn hits(&self, hashes: &[u64], tokens: u32) -> Vec<BlockId> {
        let most = tokens.saturating_sub(1) / self.config.block_size;
        hashes.iter().take(most as usize).map_while(|&hash| self.pool.lookup(hash)).collect()
    }

    /// Takes a request's blocks away and puts it at the head of the queue.
    fn preempt(&mut self, mut request: Request) {
        self.pool.release(&request.blocks);
        request.blocks.clear();
        request.stored = 0;
        request.computed = 0;
        request.in_step = false;
        request.phase = Phase::Preempted;
        self.counters.preemptions += 1;
        self.waiting.push_front(request);
    }

    /// Puts `tokens` of a running request into the step. The caller has made sure that blocks are there.
    fn compute(&mut self, at: usize, tokens: u32, step: &mut Step) {
        let Engine { config, pool, running, events, seen, counters: _, .. } = self;
        let request = &mut running[at];
        let size = config.block_size as usize;
        let (from, to) = (request.computed as usize, (request.computed + tokens) as usize);
        while request.blocks.len() < to.div_ceil(size) {
            let evicted = |hash| {
                if config.kv_events {
                    events.push(KvEvent::Removed { hash });
                }
            };
            let Some(block) = pool.allocate(evicted) else { break };
            request.blocks.push(block);
        }
        if tokens == 1 && !request.outputs.is_empty() && to == request.tokens() as usize {
            step.work.add_decode(request.computed);
        } else {
            step.work.add_prefill(tokens, request.computed, computed_before(request, seen, size, from, to));
        }
        request.computed += tokens;
        request.in_step = true;
        let (first, full) = (request.stored, to / size);
        if first == full {
            return;
        }
        for block in first..full {
            pool.store(request.blocks[block], request.hashes[block]);
            seen.insert(request.hashes[block]);
        }
        request.stored = full;
        if config.kv_events {
            events.push(KvEvent::Stored {
                parent: first.checked_sub(1).map(|before| request.hashes[before]),
                hashes: request.hashes[first..full].to_vec(),
                tokens: request.ids(first * size, full * size),
                space: Arc::clone(&request.space),
            });
        }
    }
}

/// How many of a request's tokens `from..to` lie in full blocks that this engine computed before.
fn computed_before(request: &Request, seen: &Seen, size: usize, from: usize, to: usize) -> u32 {
    let blocks = from / size..to.div_ceil(size).min(request.hashes.len());
    let inside = |block: usize| ((block + 1) * size).min(to) - (block * size).max(from);
    blocks.filter(|&block| seen.contains(request.hashes[block])).map(inside).sum::<usize>() as u32
}

impl Request {
    fn admit(&mut self, hits: Vec<BlockId>, cached: u32, now: f64) {
        if self.cached_tokens.is_none() {
            self.cached_tokens = Some(cached);
            self.admitted = now;
        }
        self.phase = Phase::Running;
        self.computed = cached;
        self.stored = hits.len();
        self.blocks = hits;
    }

    /// Generates one token.
    fn emit(&mut self, chain: &Chain, config: &EngineConfig) -> Emitted {
        let index = self.outputs.len() as u32;
        let token =
            config.output_ids[hash::choose(self.output_seed, u64::from(index), config.output_ids.len())];
        self.outputs.push(token);
        let (tokens, size) = (self.tokens() as usize, config.block_size as usize);
        if tokens.is_multiple_of(size) {
            let parent = self.hashes.last().copied().unwrap_or(self.root);
            self.hashes.push(chain.next(parent, &self.ids(tokens - size, tokens)));
        }
        let finished = (index + 1 == self.output_tokens).then_some(self.finish);
        Emitted { id: self.id, token, index, finished, cached_tokens: self.cached_tokens.unwrap_or(0) }
    }
}
