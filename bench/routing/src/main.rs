//! Policies on the engine model: `cargo run --release -p warmroute-bench-routing [-- SEED]`.

mod adapter;

use adapter::Routed;
use warmroute_core::calibration::Calibration;
use warmroute_core::config::{Policy, RouterConfig};
use warmroute_core::options::Value;
use warmroute_sim::engine::{EngineConfig, StepTime};
use warmroute_sim::fleet::{self, Arrivals, Plan, Report, SharedPrefixes};

struct Scenario {
    name: &'static str,
    engines: Vec<EngineConfig>,
    calibration: Calibration,
    arrivals: Arrivals,
    requests: u64,
    prompts: fn(u64) -> SharedPrefixes,
}

fn scenarios() -> Vec<Scenario> {
    let a100 = EngineConfig::default();
    let h100 = EngineConfig { step_time: StepTime::H100_8B, ..EngineConfig::default() };
    let closed = Arrivals::Closed { clients: 100 };
    let eight = |name, prompts, requests| Scenario {
        name,
        engines: vec![h100.clone(); 8],
        calibration: Calibration::H100_8B,
        arrivals: closed.clone(),
        requests,
        prompts,
    };
    vec![
        Scenario {
            name: "seed: 24 agents, 4 x A100, 100 clients",
            engines: vec![a100; 4],
            calibration: Calibration::A100_8B,
            arrivals: closed.clone(),
            requests: 1500,
            prompts: SharedPrefixes::agents,
        },
        eight("A: 32 prefixes, 8 x H100", |seed| zipf(32, seed), 1500),
        eight("B: 96 prefixes, 8 x H100", |seed| zipf(96, seed), 1500),
        eight("C: 160 prefixes, 8 x H100", |seed| zipf(160, seed), 1500),
        eight("D: one prefix with 60 %, 8 x H100", hot, 1500),
    ]
}

fn zipf(groups: u32, seed: u64) -> SharedPrefixes {
    SharedPrefixes::new(&SharedPrefixes::zipf(groups, 0.9), 30_000, (200, 1500), 120, seed)
}

fn hot(seed: u64) -> SharedPrefixes {
    let mut weights = vec![0.4 / 63.0; 64];
    weights[0] = 0.6;
    SharedPrefixes::new(&weights, 30_000, (200, 1500), 120, seed)
}

fn play(scenario: &Scenario, policy: Policy, seed: u64) -> Report {
    let config = RouterConfig { policy, calibration: scenario.calibration, ..RouterConfig::default() };
    let plan = Plan {
        arrivals: scenario.arrivals.clone(),
        requests: scenario.requests,
        warm_up: scenario.requests / 5,
        patience: None,
        seed,
    };
    let mut route = Routed::new(config, &scenario.engines, seed);
    let mut prompts = (scenario.prompts)(seed);
    fleet::run(&scenario.engines, &plan, &mut prompts, &mut route).expect("the bench's plan is possible")
}

fn policy(name: &str) -> Policy {
    let mut config = RouterConfig::default();
    config.set("policy", &Value::Choice(name.to_owned())).expect("it is one of the names");
    config.policy
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for scenario in scenarios() {
        println!("{}", scenario.name);
        for name in Policy::NAMES {
            println!("  {name:<24} {}", play(&scenario, policy(name), seed));
        }
    }
}
