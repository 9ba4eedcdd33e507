#pragma once

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/time.h"
#include "src/nccl/terms.h"
#include "src/topology/communication_path.h"

// How fast an algorithm can be at best on the raw links of a group (N ranks on n nodes, k to a
// node, S bytes by nccl-tests' convention): what the links inside a node and those between nodes
// must carry for a rank, respectively a node, and how many links a byte must cross one after
// another.
//
//   algorithm          inside, of S         between, of S     one after another
//   ring all-reduce    2 (N - 1) / N        2 (N - 1) / N     2 (N - n) inside, 2 (n - 1) between
//   ring others        (N - 1) / N          (N - 1) / N       half of that
//   ring broadcast     1                    1                 half of that
//   tree               2 (k - 1) / k        2 (n - 1) / n     2 (k - 1) and 2 floor(log2 n)
//   NVLS               (N - 1) / N          -                 1 inside
//   NVLSTree           (k - 1) / k          2 (n - 1) / n     1 and 2 floor(log2 n)
//   CollNet            (k - 1) / k          (n - 1) / n       1 and 1
//   PAT                (N - 1) / N          (N - 1) / N       0 and floor(log2 n)
//
//   ring reduce        as ring broadcast
//   all-to-all         (k - 1) / N          k (N - k) / N     1 inside, or 1 between
//   scatter, gather    (k - 1) / N          (N - k) / N       1 inside, or 1 between
//   send_recv          1                    1                 1 inside, or 1 between
//
// In-switch reduction sends less than a ring: each rank hands its data over once, and the switch
// adds. What a root sends or receives over PCIe is not held against the ring's bandwidth inside the
// node, which a link may limit that the root needs less.
namespace stepcast::cost {

// Made of sends and receives: all-to-all, scatter, gather, send_recv.
bool IsExchange(CollectiveKind kind);

struct LinkTimes {
  Time intra;  // links inside nodes
  Time inter;  // links between nodes
  Time latency;

  Time bandwidth_bound() const { return intra > inter ? intra : inter; }
};

// Zero where there are no such links. Requires another kind than exchanges.
LinkTimes FastestLinkTimes(CollectiveKind kind, nccl::Algorithm algorithm, Bytes bytes,
                           const topology::CommunicationPath& path);

// The same for exchanges.
LinkTimes FastestExchangeTimes(CollectiveKind kind, Bytes bytes,
                               const topology::CommunicationPath& path);

}  // namespace stepcast::cost
