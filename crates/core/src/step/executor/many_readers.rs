//! In which order a result with many readers hands them out.
//!
//! In: the readers of all nodes in the graph's order, and a seed for where the program's memory lies. Out: the same, with those of each node that has more than
//! [`ORDERED_READERS`] in the order of a hash table of their edges' addresses: another one in each start of the program, the same in all of its steps.
//! The edges lie one behind the other, in the order in which a sorted graph is put together and copied, in blocks that lie anywhere. So the order is that of the
//! graph, cut in some places and put together again, with what found its place taken a little further on. Not counted: edges that the graph loses while it is compiled.

use smallvec::SmallVec;

use super::prepared::Prepared;
use super::workers::Random;
use crate::step::graph::NodeId;

/// Up to this many readers of a kernel's results are handed out in the graph's order (tensorflow/core/graph/edgeset.h, `kInline`).
const ORDERED_READERS: usize = 8;
/// Bytes of an edge (tensorflow/core/graph/graph.h, `Edge`), and of the blocks that they lie in (`Graph::arena_`).
const EDGE_BYTES: u64 = 32;
const BLOCK_BYTES: u64 = 8 << 10;
/// What is allocated begins at a multiple of this, and has as much in front of it (malloc).
const ALIGNMENT_BYTES: u64 = 16;

/// Puts the readers of results that have many into the order of a start of the program.
pub(super) fn shuffle(prepared: &Prepared, readers: &mut [NodeId], seed: u64) {
    let many = |node: &usize| {
        let node = NodeId(*node as u32);
        prepared.readers_of(readers, node).len() > ORDERED_READERS && prepared.dependency_count[node.0 as usize] > 0
    };
    let nodes: Vec<usize> = (0..prepared.node_count()).filter(many).collect();
    if nodes.is_empty() {
        return;
    }
    let first_edge = edges_before(prepared, readers);
    let last = first_edge.iter().max().copied().unwrap_or(0) + BLOCK_BYTES / EDGE_BYTES;
    let memory = Memory::new(last, &mut Random::new(seed, u32::MAX));
    for node in nodes {
        let own = prepared.reader_range(NodeId(node as u32));
        let mut edges: Vec<(u64, NodeId)> =
            readers[own.clone()].iter().map(|&reader| (first_edge[reader.0 as usize], reader)).collect();
        edges.sort_unstable();
        let addresses: Vec<u64> = edges.iter().map(|&(edge, _)| memory.address(edge)).collect();
        for (place, edge) in readers[own].iter_mut().zip(table_order(&addresses)) {
            *place = edges[edge].1;
        }
    }
}

/// Where edges lie: a block behind the one before, or anywhere. In logs of TensorFlow both were seen; how often each of them is the case depends on what was freed before, and
/// is not known: here it is one as often as the other.
struct Memory {
    bases: Vec<u64>,
    /// So many edges lie in the first block before the first that is counted: those that are not known beforehand move all others.
    unknown: u64,
}

impl Memory {
    /// Of a graph with so many edges.
    fn new(edges: u64, random: &mut Random) -> Memory {
        let unknown = random.any() % (BLOCK_BYTES / EDGE_BYTES);
        let mut bases: Vec<u64> = Vec::new();
        for _ in 0..=(edges + unknown) * EDGE_BYTES / BLOCK_BYTES {
            // Memory lies somewhere in 47 bits.
            let anywhere = random.any() >> 17 & !(ALIGNMENT_BYTES - 1);
            let behind = bases.last().map(|base| base + BLOCK_BYTES + ALIGNMENT_BYTES);
            bases.push(behind.filter(|_| random.any() & 1 == 0).unwrap_or(anywhere));
        }
        Memory { bases, unknown }
    }

    fn address(&self, edge: u64) -> u64 {
        let at = (edge + self.unknown) * EDGE_BYTES;
        self.bases[(at / BLOCK_BYTES) as usize] + at % BLOCK_BYTES
    }
}

/// How many edges are there before each node's own, as the sorted graph is put together: a node comes when all are there that it waits for, and of those
/// that come together, whoever reads an earlier result of their common maker comes first.
fn edges_before(prepared: &Prepared, readers: &[NodeId]) -> Vec<u64> {
    let mut waits = prepared.dependency_count.clone();
    let mut queue: Vec<NodeId> = prepared.sources.clone();
    let mut before = vec![0; prepared.node_count()];
    let (mut edges, mut next) = (0, 0);
    while let Some(&node) = queue.get(next) {
        next += 1;
        before[node.0 as usize] = edges;
        edges += prepared.edges(node);
        let outputs = prepared.outputs(node);
        let reads =
            |reader: NodeId| prepared.inputs(reader).iter().filter(|input| outputs.contains(input)).min().copied();
        let mut together: SmallVec<[_; 8]> =
            prepared.readers_of(readers, node).iter().map(|&reader| (reads(reader), reader)).collect();
        together.sort_unstable();
        for (_, reader) in together {
            let waits = &mut waits[reader.0 as usize];
            *waits -= 1;
            if *waits == 0 {
                queue.push(reader);
            }
        }
    }
    before
}

/// The order in which TensorFlow's hash table has what was put into it (tensorflow/core/lib/gtl/flatrep.h): at the place that a few bits of its hash
/// name, or where steps of one, two, three and so on lead to a free one. A copied graph has tables of the right size from the beginning
/// (tensorflow/core/graph/graph.cc, `Graph::Copy`).
fn table_order(addresses: &[u64]) -> Vec<usize> {
    let mut places = 8;
    while addresses.len() * 5 >= places * 4 {
        places *= 2;
    }
    let mut table: Vec<Option<usize>> = vec![None; places];
    for (entry, address) in addresses.iter().enumerate() {
        let mut place = (address + (address >> 6)) as usize >> 8 & (places - 1);
        let mut step = 1;
        while table[place].is_some() {
            place = (place + step) & (places - 1);
            step += 1;
        }
        table[place] = Some(entry);
    }
    table.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of 75 readers whose first edges are so many edges apart, if the first one lies there.
    fn order(base: u64, apart: u64) -> Vec<usize> {
        table_order(&(0..75).map(|reader| base + reader * apart * EDGE_BYTES).collect::<Vec<_>>())
    }

    /// Read off TensorFlow's log of `masked_tagger`, batch 64, Adam, run by one thread: which of 75 steps a `TimeDistributed` layer took up first, and
    /// which of their gradients. The thread runs what was made ready last first. Where the edges lay is not in the log; here stands one of the
    /// places that the orders follow from.
    #[test]
    fn steps_come_in_the_order_in_which_tensorflow_took_them_up() {
        let mut steps = vec![
            10, 8, 6, 5, 3, 4, 2, 1, 0, 74, 73, 72, 70, 68, 66, 64, 62, 60, 58, 71, 69, 67, 65, 63, 61, 59, 57, 56, 54,
            52, 50, 48, 46, 44, 55, 53, 51, 49, 47, 45, 43, 42, 40, 38, 36, 34, 32, 41, 39, 37, 35, 33, 31, 30, 29, 27,
            25, 23, 21, 28, 26, 24, 22, 20, 19, 17, 15, 13, 18, 16, 14, 12, 11, 9, 7,
        ];
        steps.reverse();
        // A slice has four inputs.
        assert_eq!(order(0xe95_a0c0, 4), steps);
        let mut gradients = vec![
            73, 70, 66, 63, 60, 56, 52, 72, 69, 65, 62, 59, 55, 51, 48, 44, 40, 68, 64, 61, 58, 54, 50, 47, 43, 39, 36,
            32, 57, 53, 49, 46, 42, 38, 35, 31, 28, 24, 45, 41, 37, 34, 30, 27, 23, 20, 16, 33, 29, 26, 22, 19, 15, 12,
            25, 21, 18, 14, 11, 8, 17, 13, 10, 7, 4, 9, 6, 3, 5, 2, 1, 0, 74, 71, 67,
        ];
        gradients.reverse();
        // A product has two.
        assert_eq!(order(0x2c96_d470, 2), gradients);
    }

    #[test]
    fn no_reader_is_lost_wherever_edges_lie() {
        let mut random = Random::new(7, 0);
        for readers in 9..200 {
            let memory = Memory::new(readers, &mut random);
            let addresses: Vec<u64> = (0..readers).map(|edge| memory.address(edge)).collect();
            let mut order = table_order(&addresses);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..readers as usize));
        }
    }
}
