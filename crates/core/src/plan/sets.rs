//! The cheapest set of remedies that fits: which sets are tried, and in which order.
//!
//! In: what is known of each remedy alone, and functions that try a set. Out: the first set that fits, by effect on the result,
//! then number of remedies, then time. How a set is tried is not known here. The number of trials is bounded: a set of more than
//! three remedies, or one behind many that do not fit, may be missed.

use super::remedies::Effect;

/// Sets of one effect that are tried at most, beyond the single remedies.
const MAX_SETS: usize = 8;

/// A remedy, tried alone.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// What it does to the result.
    pub effect: Effect,
    /// Whether the job then fits.
    pub fits: bool,
    /// It needs a device that is not there: never part of a set.
    pub needs_hardware: bool,
    /// Time for one sample, relative to before.
    pub time_cost: f64,
}

/// The first set that `try_set` answers for; sets are places in `members`, in their order. `all_together` says whether the
/// strongest forms of all of these fit: if not, no set of them does.
pub fn cheapest<T>(
    mut members: Vec<Member>,
    all_together: impl Fn(&[usize]) -> bool,
    mut try_set: impl FnMut(&[usize], Effect) -> Option<T>,
) -> Option<T> {
    let usable: Vec<usize> = (0..members.len()).filter(|&index| !members[index].needs_hardware).collect();
    let mut effects: Vec<Effect> = usable.iter().map(|&index| members[index].effect).collect();
    effects.sort_unstable();
    effects.dedup();
    for effect in effects {
        let mut pool = usable.clone();
        pool.retain(|&index| members[index].effect <= effect);
        if !pool.iter().any(|&index| members[index].fits) && !all_together(&pool) {
            continue;
        }
        let mut left = MAX_SETS;
        for set in sets(&members, &pool, effect) {
            // A set with a member that fits alone was dealt with when that member was.
            if set.len() > 1 && (left == 0 || set.iter().any(|&index| members[index].fits)) {
                continue;
            }
            left -= usize::from(set.len() > 1);
            if let Some(found) = try_set(&set, effect) {
                return Some(found);
            }
            if let [alone] = set[..] {
                members[alone].fits = false;
            }
        }
    }
    None
}

/// Single remedies, pairs and triples with this effect: by size, then by what they would cost if costs multiplied.
fn sets(members: &[Member], pool: &[usize], effect: Effect) -> Vec<Vec<usize>> {
    let mut sets: Vec<(f64, Vec<usize>)> = Vec::new();
    let mut add = |set: &[usize]| {
        if set.iter().any(|&index| members[index].effect == effect) {
            sets.push((set.iter().map(|&index| members[index].time_cost).product(), set.to_vec()));
        }
    };
    for (place, &first) in pool.iter().enumerate() {
        if members[first].fits {
            add(&[first]);
        }
        for (next, &second) in pool.iter().enumerate().skip(place + 1) {
            add(&[first, second]);
            pool[next + 1..].iter().for_each(|&third| add(&[first, second, third]));
        }
    }
    sets.sort_by(|(a_cost, a), (b_cost, b)| {
        a.len().cmp(&b.len()).then_with(|| a_cost.total_cmp(b_cost)).then_with(|| a.cmp(b))
    });
    sets.into_iter().map(|(_, set)| set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(effect: Effect, fits: bool, time_cost: f64) -> Member {
        Member { effect, fits, needs_hardware: false, time_cost }
    }

    #[test]
    fn the_gentlest_then_the_smallest_then_the_fastest_set_is_tried_first() {
        let members = vec![
            member(Effect::Exact, false, 1.2),
            member(Effect::Exact, false, 1.1),
            member(Effect::Numerics, true, 0.5),
            Member { needs_hardware: true, ..member(Effect::Exact, true, 0.1) },
        ];
        let mut tried = Vec::new();
        let none: Option<()> = cheapest(
            members.clone(),
            |_| true,
            |set, _| {
                tried.push(set.to_vec());
                None
            },
        );
        assert_eq!(none, None);
        // The remedy that fitted alone did not when it was tried again, so sets with it are tried after all.
        assert_eq!(tried, [vec![0, 1], vec![2], vec![1, 2], vec![0, 2], vec![0, 1, 2]]);
        let first = cheapest(members, |_| false, |set, effect| Some((set.to_vec(), effect)));
        assert_eq!(first, Some((vec![2], Effect::Numerics)));
    }
}
