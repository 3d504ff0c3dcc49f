//! The order in which Keras runs a functional graph.
//!
//! In: nodes (layer calls) with the nodes they read, and the output nodes. Out: the nodes in an order in which a program may have called them, and
//! in running order. The latter decides
//! what is alive at the same time, so this follows Keras: nodes by depth (steps to the furthest output), deepest first,
//! and nodes of one depth in the order in which a walk back from the outputs meets them.

/// One call of one layer.
pub(super) struct Node {
    /// The layer that is called: calls of a shared layer move to the depth of the deepest one.
    pub(super) layer: usize,
    /// The nodes it reads, in the order of its arguments, repeated if read twice.
    pub(super) parents: Vec<usize>,
}

/// The running order of nodes in [topological] order.
pub(super) fn order(nodes: &[Node], topological: &[usize], layers: usize) -> Vec<usize> {
    // A node that is not reached from an output never gets a depth.
    let mut depth: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut reached = vec![false; nodes.len()];
    for &node in topological {
        reached[node] = true;
    }
    let mut layer_depth = vec![0; layers];
    // Nodes in the order in which they first get a depth: the order within one depth.
    let mut met = Vec::with_capacity(topological.len());
    for &node in topological.iter().rev() {
        if depth[node].is_none() {
            met.push(node);
        }
        let at = depth[node].unwrap_or(0).max(layer_depth[nodes[node].layer]);
        layer_depth[nodes[node].layer] = at;
        depth[node] = Some(at);
        for &parent in &nodes[node].parents {
            if !reached[parent] {
                continue;
            }
            if depth[parent].is_none() {
                met.push(parent);
            }
            depth[parent] = Some(depth[parent].unwrap_or(0).max(at + 1));
        }
    }
    met.sort_by_key(|&node| std::cmp::Reverse(depth[node]));
    met
}

/// Nodes with their parents before them, by a walk back from the outputs, or a node on a cycle. Nodes that no output needs are left out. Iterative:
/// graphs are thousands of nodes deep.
pub(super) fn topological(nodes: &[Node], outputs: &[usize]) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut state = vec![State::New; nodes.len()];
    let mut sorted = Vec::with_capacity(nodes.len());
    for &output in outputs {
        if state[output] != State::New {
            continue;
        }
        state[output] = State::Open;
        let mut path = vec![(output, 0)];
        while let Some((node, next)) = path.last_mut() {
            match nodes[*node].parents.get(*next) {
                Some(&parent) => {
                    *next += 1;
                    match state[parent] {
                        State::New => {
                            state[parent] = State::Open;
                            path.push((parent, 0));
                        }
                        State::Open => return Err(parent),
                        State::Done => {}
                    }
                }
                None => {
                    state[*node] = State::Done;
                    sorted.push(*node);
                    path.pop();
                }
            }
        }
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(layer: usize, parents: &[usize]) -> Node {
        Node { layer, parents: parents.to_vec() }
    }

    fn running(nodes: &[Node], outputs: &[usize]) -> Result<Vec<usize>, usize> {
        Ok(order(nodes, &topological(nodes, outputs)?, nodes.len()))
    }

    #[test]
    fn deepest_first_then_as_met_from_the_outputs() {
        // input 0 → 1 → 2 → 4, and 0 → 3 → 4: node 3 is as shallow as 2.
        let nodes = [node(0, &[]), node(1, &[0]), node(2, &[1]), node(3, &[0]), node(4, &[2, 3])];
        assert_eq!(running(&nodes, &[4]), Ok(vec![0, 1, 2, 3, 4]));
        assert_eq!(topological(&nodes, &[4]), Ok(vec![0, 1, 2, 3, 4]));
        // The second argument is met second.
        let nodes = [node(0, &[]), node(1, &[0]), node(2, &[1]), node(3, &[0]), node(4, &[3, 2])];
        assert_eq!(running(&nodes, &[4]), Ok(vec![0, 1, 3, 2, 4]));
        assert_eq!(topological(&nodes, &[4]), Ok(vec![0, 3, 1, 2, 4]));
    }

    #[test]
    fn a_cycle_is_found_and_a_dead_end_left_out() {
        let nodes = [node(0, &[1]), node(1, &[0]), node(2, &[])];
        assert_eq!(running(&nodes, &[0]), Err(0));
        assert_eq!(running(&nodes, &[2]), Ok(vec![2]));
    }
}
