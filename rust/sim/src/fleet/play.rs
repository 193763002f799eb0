//! The play itself: events in the order of their time.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use hashbrown::HashMap;

use super::report::{Outcome, Report, Spread, Totals, ratio};
use super::{Arrivals, Closed, Plan, Prompt, Prompts, Rng, Route, Sending};
use crate::engine::{ConfigError, Emitted, Engine, EngineConfig, Finish, RequestId, Submission};

/// Plays `plan` with these engines and says what it came to.
///
/// # Errors
/// [`ConfigError`] when an engine or the plan cannot be.
pub fn run(
    engines: &[EngineConfig],
    plan: &Plan,
    prompts: &mut dyn Prompts,
    route: &mut dyn Route,
) -> Result<Report, ConfigError> {
    if engines.is_empty() {
        return Err(ConfigError::new("engines", "[]", "at least one"));
    }
    plan.check()?;
    let engines = engines.iter().cloned().map(Engine::new).collect::<Result<Vec<_>, _>>()?;
    let mut play = Play::new(engines, plan, prompts, route);
    play.start();
    while let Some(Entry { at, what, .. }) = play.agenda.pop() {
        play.now = at;
        play.happen(what);
    }
    Ok(play.report())
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Client number so and so sends a new request.
    Arrive(u32),
    /// A worker's step ends.
    StepEnd(usize),
    /// The patience with a sending ends.
    GiveUp(u64),
}

#[derive(Debug)]
struct Entry {
    at: f64,
    /// What was entered first comes first, at equal times.
    number: u64,
    what: What,
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        // Reversed: the heap gives the greatest first, and the earliest is wanted.
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// A sending that a worker has taken.
#[derive(Debug)]
struct Taken {
    request: u64,
    worker: usize,
    engine_id: RequestId,
    /// The client has left, and the worker does not know.
    orphan: bool,
}

/// A request whose client waits.
#[derive(Debug)]
struct Open {
    prompt: Prompt,
    client: u32,
}

struct Play<'a> {
    engines: Vec<Engine>,
    plan: &'a Plan,
    prompts: &'a mut dyn Prompts,
    route: &'a mut dyn Route,
    now: f64,
    agenda: BinaryHeap<Entry>,
    entries: u64,
    arrivals: Rng,
    outcomes: Vec<Outcome>,
    open: HashMap<u64, Open>,
    sendings: u64,
    taken: HashMap<u64, Taken>,
    by_engine: HashMap<(usize, RequestId), u64>,
    /// A prompt of each group, whose prefix is looked for at the end.
    groups: BTreeMap<u32, Prompt>,
    refused: u64,
    measured_sends: u64,
    /// When the warm-up ended, and the totals then.
    warm: (f64, Totals),
    last_arrival: f64,
}

impl<'a> Play<'a> {
    fn new(
        engines: Vec<Engine>,
        plan: &'a Plan,
        prompts: &'a mut dyn Prompts,
        route: &'a mut dyn Route,
    ) -> Play<'a> {
        Play {
            engines,
            plan,
            prompts,
            route,
            now: 0.0,
            agenda: BinaryHeap::new(),
            entries: 0,
            arrivals: Rng::new(plan.seed, u64::MAX / 2),
            outcomes: Vec::new(),
            open: HashMap::new(),
            sendings: 0,
            taken: HashMap::new(),
            by_engine: HashMap::new(),
            groups: BTreeMap::new(),
            refused: 0,
            measured_sends: 0,
            warm: (0.0, Totals::default()),
            last_arrival: 0.0,
        }
    }

    fn start(&mut self) {
        match &self.plan.arrivals {
            Arrivals::Closed { clients } => {
                (0..*clients).for_each(|client| self.enter(0.0, What::Arrive(client)))
            }
            Arrivals::Open { .. } => self.enter_next_arrival(),
        }
    }

    fn enter(&mut self, at: f64, what: What) {
        self.entries += 1;
        self.agenda.push(Entry { at, number: self.entries, what });
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrive(client) => self.arrive(client),
            What::StepEnd(worker) => self.step_end(worker),
            What::GiveUp(sending) => self.give_up(sending),
        }
    }

    /// Of an open workload: draws the next arrival, in the phase that holds at this moment.
    fn enter_next_arrival(&mut self) {
        let Arrivals::Open { phases } = &self.plan.arrivals else { return };
        let mut start = 0.0;
        let mut at = self.now;
        for (number, phase) in phases.iter().enumerate() {
            let end = start + phase.seconds;
            let last = number + 1 == phases.len();
            if at < end || last {
                at += self.arrivals.exponential(phase.rate);
                if at < end || last {
                    return self.enter(at, What::Arrive(0));
                }
                // Memoryless: what is left of the wait is drawn anew at the next phase's rate.
                at = end;
            }
            start = end;
        }
    }

    fn arrive(&mut self, client: u32) {
        let request = self.outcomes.len() as u64;
        if request == self.plan.requests {
            return;
        }
        if request == self.plan.warm_up {
            self.warm = (self.now, self.totals());
        }
        self.last_arrival = self.now;
        let mut rng = Rng::new(self.plan.seed, request);
        let prompt = self.prompts.prompt(request, client, &mut rng);
        let group = prompt.group;
        self.outcomes.push(Outcome { group, arrived: self.now, ttft: None, e2e: None, sends: 0 });
        self.groups.entry(group).or_insert_with(|| prompt.clone());
        self.open.insert(request, Open { prompt, client });
        self.send(request);
        self.enter_next_arrival();
    }

    fn send(&mut self, request: u64) {
        let Some(Open { prompt, .. }) = self.open.get(&request) else { return };
        let outcome = &mut self.outcomes[request as usize];
        let sending = Sending { id: self.sendings, request, attempt: outcome.sends, prompt };
        outcome.sends += 1;
        self.sendings += 1;
        self.measured_sends += u64::from(request >= self.plan.warm_up);
        let id = sending.id;
        let submission = Submission {
            prompt: Arc::clone(&prompt.tokens),
            output_tokens: prompt.output_tokens,
            finish: Finish::Length,
            space: Arc::clone(&prompt.space),
        };
        let worker = self.route.route(&sending, self.now).filter(|&worker| worker < self.engines.len());
        let submitted = worker.map(|worker| (worker, self.engines[worker].submit(submission, self.now)));
        let Some((worker, Ok(engine_id))) = submitted else {
            self.refused += 1;
            if worker.is_some() {
                self.route.closed(id, Closed::Abandoned, 0, self.now);
            }
            return self.end(request);
        };
        self.taken.insert(id, Taken { request, worker, engine_id, orphan: false });
        self.by_engine.insert((worker, engine_id), id);
        if let Some(patience) = self.plan.patience {
            self.enter(self.now + patience.ttft, What::GiveUp(id));
        }
        self.begin_step(worker);
    }

    fn begin_step(&mut self, worker: usize) {
        if let Some(seconds) = self.engines[worker].begin_step(self.now) {
            self.enter(self.now + seconds, What::StepEnd(worker));
        }
    }

    fn step_end(&mut self, worker: usize) {
        let output = self.engines[worker].end_step(self.now);
        if !output.events.is_empty() {
            self.route.kv_events(worker, &output.events, self.now);
        }
        for emitted in &output.tokens {
            self.token(worker, emitted);
        }
        self.begin_step(worker);
    }

    fn token(&mut self, worker: usize, emitted: &Emitted) {
        let Some(&id) = self.by_engine.get(&(worker, emitted.id)) else { return };
        let Some(&Taken { request, orphan, .. }) = self.taken.get(&id) else { return };
        let outcome = &mut self.outcomes[request as usize];
        let since_arrival = self.now - outcome.arrived;
        if emitted.index == 0 {
            if !orphan {
                outcome.ttft = Some(since_arrival);
            }
            self.route.first_token(id, self.now);
        }
        if emitted.finished.is_some() {
            self.taken.remove(&id);
            self.by_engine.remove(&(worker, emitted.id));
            self.route.closed(id, Closed::Finished, emitted.cached_tokens, self.now);
            if !orphan {
                outcome.e2e = Some(since_arrival);
                self.end(request);
            }
        }
    }

    fn give_up(&mut self, id: u64) {
        let Some(patience) = self.plan.patience else { return };
        let Some(taken) = self.taken.get_mut(&id) else { return };
        let request = taken.request;
        if self.outcomes[request as usize].ttft.is_some() {
            return;
        }
        if patience.aborts {
            let key = (taken.worker, taken.engine_id);
            self.engines[key.0].abort(key.1);
            self.taken.remove(&id);
            self.by_engine.remove(&key);
            self.route.closed(id, Closed::Abandoned, 0, self.now);
        } else {
            taken.orphan = true;
        }
        if self.outcomes[request as usize].sends <= patience.retries {
            self.send(request);
        } else {
            self.end(request);
        }
    }

    /// A request is over, answered or not; of a closed workload its client sends the next.
    fn end(&mut self, request: u64) {
        let Some(open) = self.open.remove(&request) else { return };
        if matches!(self.plan.arrivals, Arrivals::Closed { .. }) {
            self.enter(self.now, What::Arrive(open.client));
        }
    }

    fn totals(&self) -> Totals {
        Totals::of(self.engines.iter().map(Engine::counters))
    }

    fn copies_per_prefix(&self) -> f64 {
        let holds = |engine: &Engine, prompt: &Prompt| {
            let prefix = &prompt.tokens[..prompt.prefix_tokens as usize];
            f64::from(engine.overlap(prefix, &prompt.space)) >= 0.9 * f64::from(prompt.prefix_tokens)
        };
        let copies = self
            .groups
            .values()
            .flat_map(|prompt| self.engines.iter().filter(move |engine| holds(engine, prompt)));
        ratio(copies.count() as f64, self.groups.len() as f64)
    }

    fn report(self) -> Report {
        let copies_per_prefix = self.copies_per_prefix();
        let (warm_at, before) = &self.warm;
        let totals = self.totals().since(before);
        let measured = &self.outcomes[self.plan.warm_up.min(self.outcomes.len() as u64) as usize..];
        // In the window everything that ends counts, whenever it arrived: the pipeline is as full at its
        // end as at its start.
        let window = *warm_at..self.last_arrival;
        let ends = self.outcomes.iter().filter_map(|outcome| outcome.e2e.map(|e2e| outcome.arrived + e2e));
        let good = ends.filter(|end| window.contains(end)).count() as f64;
        let answered = measured.iter().filter(|outcome| outcome.e2e.is_some()).count() as f64;
        Report {
            hit_rate: totals.hit_rate(),
            goodput: ratio(good, window.end - window.start),
            success: ratio(answered, measured.len() as f64),
            ttft: Spread::of(measured.iter().filter_map(|outcome| outcome.ttft)),
            e2e: Spread::of(measured.iter().filter_map(|outcome| outcome.e2e)),
            busy_max_over_mean: totals.busy_max_over_mean(),
            recompute_share: totals.recompute_share(),
            copies_per_prefix,
            sends_per_request: ratio(self.measured_sends as f64, measured.len() as f64),
            refused: self.refused,
            preemptions: totals.preemptions(),
            outcomes: self.outcomes,
        }
    }
}
