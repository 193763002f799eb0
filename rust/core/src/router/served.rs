//! The names of models that workers serve, kept as workers come and go.

use std::collections::HashMap;

use crate::fleet::WorkerSpec;

/// By name, how many workers serve it, and how many of them as an adapter.
#[derive(Debug, Default)]
pub(super) struct Served {
    names: HashMap<String, Count>,
    /// Names that were counted: what the work is in proportion to.
    #[cfg(test)]
    counted: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    models: u32,
    adapters: u32,
}

impl Served {
    /// Whether a worker serves `model` as an adapter; none where nobody is known to serve it.
    pub(super) fn is_adapter(&self, model: &str) -> Option<bool> {
        self.names.get(model).map(|count| count.adapters > 0)
    }

    /// A worker serves these names from now on.
    pub(super) fn add(&mut self, spec: &WorkerSpec) {
        self.change(spec, |count| *count += 1);
    }

    /// It does not any more.
    pub(super) fn remove(&mut self, spec: &WorkerSpec) {
        self.change(spec, |count| *count -= 1);
    }

    fn change(&mut self, spec: &WorkerSpec, change: impl Fn(&mut u32)) {
        let models = spec.models.iter().map(|name| (name, false));
        for (name, adapter) in models.chain(spec.adapters.iter().map(|name| (name, true))) {
            let count = self.names.entry(name.clone()).or_default();
            change(if adapter { &mut count.adapters } else { &mut count.models });
            if *count == Count::default() {
                self.names.remove(name);
            }
            #[cfg(test)]
            {
                self.counted += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[a-d]", 0..4)
    }

    proptest! {
        /// Against the names of all workers, listed anew; a name may be listed twice.
        #[test]
        fn equals_a_list_made_anew(steps in prop::collection::vec((0_usize..4, names(), names()), 1..40)) {
            let (mut served, mut workers) = (Served::default(), vec![WorkerSpec::default(); 4]);
            for (worker, models, adapters) in steps {
                served.remove(&workers[worker]);
                workers[worker] = WorkerSpec { models, adapters, ..WorkerSpec::default() };
                served.add(&workers[worker]);
                for name in ["a", "b", "c", "d"].map(str::to_owned) {
                    let adapter = workers.iter().any(|worker| worker.adapters.contains(&name));
                    let known = adapter || workers.iter().any(|worker| worker.models.contains(&name));
                    prop_assert_eq!(served.is_adapter(&name), known.then_some(adapter));
                }
            }
        }
    }

    #[test]
    fn one_more_worker_costs_what_it_serves_and_not_what_the_others_do() {
        let mut served = Served::default();
        for worker in 0..1000 {
            let models = vec!["base".to_owned(), format!("adapter-{worker}")];
            let adapters = models[1..].to_vec();
            served.add(&WorkerSpec { models, adapters, ..WorkerSpec::default() });
        }
        assert_eq!((served.names.len(), served.counted), (1001, 3000));
    }
}
