//! The workers that a decision did not take.

use std::sync::Arc;

use crate::error::RouteError;
use crate::fleet::Worker;
use crate::load::ledger::Reservation;
use crate::router::{Decision, RouteRequest, Router};
use crate::select::cost::{self, Cost};
use crate::select::{self, Candidate, Question, Reason};
use crate::time::Time;

/// A worker that might have been chosen.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The worker.
    pub worker: Arc<Worker>,
    /// Leading tokens of the prompt that it is taken to hold.
    pub overlap_tokens: u32,
    /// The terms of its cost.
    pub cost: Cost,
}

/// What a decision was chosen among.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// The next best, the cheapest first; those whose KV blocks are nearly all in use last.
    pub alternatives: Vec<Alternative>,
    /// The cheapest warm worker, where the decision is a spill: it was left.
    pub left: Option<Alternative>,
}

impl Router {
    /// As [`Router::decide`], with up to `limit` alternatives.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn decide_among(
        &mut self,
        request: &RouteRequest<'_>,
        now: Time,
        random: u64,
        limit: usize,
    ) -> Result<(Decision, Others), RouteError> {
        let decision = self.decide(request, now, random)?;
        let others = self.others(request, &decision, random, limit);
        Ok((decision, others))
    }

    /// As [`Router::route`], with up to `limit` alternatives.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route_among(
        &mut self,
        request: &RouteRequest<'_>,
        now: Time,
        random: u64,
        limit: usize,
    ) -> Result<(Decision, Reservation, Others), RouteError> {
        let (decision, reservation) = self.route(request, now, random)?;
        let others = self.others(request, &decision, random, limit);
        Ok((decision, reservation, others))
    }

    /// The candidates that `decision`, the last one, did not take; as they were before it.
    fn others(&self, request: &RouteRequest<'_>, decision: &Decision, random: u64, limit: usize) -> Others {
        if limit == 0 && decision.reason != Reason::Spill {
            return Others::default();
        }
        let question = self.question(request, random);
        let left = if decision.reason == Reason::Spill {
            select::cheapest_warm(&question, &self.candidates, &self.config, &self.prices)
        } else {
            None
        };
        let mut best: Vec<(bool, f64, &Candidate)> = Vec::with_capacity(limit + 1);
        for candidate in self.candidates.iter().filter(|each| each.slot != decision.worker.id.slot) {
            let cost = cost::of(&question, candidate, &self.prices).total();
            let is_better = |&(full, other, _): &(bool, f64, &Candidate)| {
                full.cmp(&candidate.full).then(other.total_cmp(&cost)).is_le()
            };
            let place = best.partition_point(is_better);
            if place < limit {
                best.insert(place, (candidate.full, cost, candidate));
                best.truncate(limit);
            }
        }
        Others {
            alternatives: best.iter().filter_map(|(_, _, each)| self.alternative(&question, each)).collect(),
            left: left.and_then(|index| self.alternative(&question, &self.candidates[index])),
        }
    }

    fn alternative(&self, question: &Question, candidate: &Candidate) -> Option<Alternative> {
        Some(Alternative {
            worker: Arc::clone(self.fleet.at(candidate.slot)?),
            overlap_tokens: candidate.overlap_tokens,
            cost: cost::of(question, candidate, &self.prices),
        })
    }
}
