//! The router as the route of a simulated fleet.

use std::collections::HashMap;

use warmroute_core::block::{BlockHash, Namespace};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::load::ledger::{Outcome, Reservation};
use warmroute_core::router::{RouteRequest, Router};
use warmroute_core::time::Time;
use warmroute_sim::engine::EngineConfig;
use warmroute_sim::fleet::{Closed, Rng, Route, Sending};

/// A router without KV events, and the reservations of what it sent.
pub struct Routed {
    router: Router,
    open: HashMap<u64, (Reservation, u32)>,
    rng: Rng,
    blocks: Vec<BlockHash>,
    packed: Vec<u8>,
}

impl Routed {
    pub fn new(config: RouterConfig, engines: &[EngineConfig], seed: u64) -> Routed {
        let mut router = Router::new(config).expect("the bench's options are allowed");
        for (i, engine) in engines.iter().enumerate() {
            let name = format!("w{i}");
            let spec = WorkerSpec { name, kv_blocks: Some(engine.usable_blocks()), ..WorkerSpec::default() };
            router.add_worker(spec).expect("names differ");
        }
        Routed {
            router,
            open: HashMap::new(),
            rng: Rng::new(seed, 1 << 63),
            blocks: Vec::new(),
            packed: Vec::new(),
        }
    }
}

impl Route for Routed {
    fn route(&mut self, sending: &Sending<'_>, now: f64) -> Option<usize> {
        let prompt = sending.prompt;
        self.packed.clear();
        self.packed.extend(prompt.tokens.iter().flat_map(|id| id.to_le_bytes()));
        self.blocks.clear();
        self.router.hasher().hash_ids(&Namespace::default(), &self.packed, &mut self.blocks);
        let request = RouteRequest {
            blocks: &self.blocks,
            prompt_tokens: prompt.tokens.len() as u32,
            max_output_tokens: Some(prompt.output_tokens),
            ..RouteRequest::default()
        };
        let (decision, reservation) =
            self.router.route(&request, Time::from_secs_f64(now), self.rng.next_u64()).ok()?;
        self.open.insert(sending.id, (reservation, prompt.output_tokens));
        Some(decision.worker.id.slot().index())
    }

    fn first_token(&mut self, id: u64, now: f64) {
        if let Some((reservation, _)) = self.open.get(&id) {
            self.router.first_token(reservation, Time::from_secs_f64(now));
        }
    }

    fn closed(&mut self, id: u64, how: Closed, _cached_tokens: u32, _now: f64) {
        let Some((reservation, output_tokens)) = self.open.remove(&id) else { return };
        let outcome = match how {
            Closed::Finished => {
                self.router.progress(&reservation, output_tokens);
                Outcome::Finished
            }
            Closed::Abandoned => Outcome::Cancelled,
        };
        self.router.close(reservation, "", outcome);
    }
}
