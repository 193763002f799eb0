//! The stable pick: of workers that cost about the same, always the same one for the same prefix.

/// The rank of a worker for a key: rendezvous hashing, so that a worker that leaves moves only its own keys.
pub(super) fn rank(key: u64, name_hash: u64) -> u64 {
    // The finaliser of SplitMix64: each bit of the input reaches each bit of the output.
    let mut x = key ^ name_hash.rotate_left(32) ^ name_hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Of `(place, cost, rank)`, the highest rank among those within `band` of the least cost.
pub(super) fn within<I>(costs: I, band: f64) -> Option<usize>
where
    I: Iterator<Item = (usize, f64, u64)> + Clone,
{
    let least = costs.clone().map(|(_, cost, _)| cost).fold(f64::INFINITY, f64::min);
    costs
        .filter(|(_, cost, _)| *cost <= least + band)
        .max_by_key(|(_, _, rank)| *rank)
        .map(|(place, _, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_spread_keys_evenly_and_move_few() {
        let names: Vec<u64> = (1..=8).map(|i| rank(i, 77)).collect();
        let best =
            |key: u64, names: &[u64]| names.iter().copied().max_by_key(|name| rank(key, *name)).unwrap();
        let mut counts = std::collections::HashMap::new();
        let mut moved = 0;
        for key in 0..8000_u64 {
            let key = key.wrapping_mul(0x2545_F491_4F6C_DD1D);
            let chosen = best(key, &names);
            *counts.entry(chosen).or_insert(0) += 1;
            moved += u32::from(chosen != names[7] && best(key, &names[..7]) != chosen);
        }
        assert!(counts.values().all(|n| (800..1200).contains(n)), "{counts:?}");
        assert_eq!(moved, 0);
    }

    #[test]
    fn only_those_within_the_band_are_alike() {
        let costs = [(0, 1.0, 5), (1, 1.2, 9), (2, 2.0, 99)];
        assert_eq!(within(costs.iter().copied(), 0.0), Some(0));
        assert_eq!(within(costs.iter().copied(), 0.5), Some(1));
        assert_eq!(within(costs.iter().copied(), 1.0), Some(2));
        assert_eq!(within([].into_iter(), 1.0), None);
    }
}
