#pragma once

#include <span>
#include <vector>

#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/program/program.h"

namespace stepcast::cost {

// The prices of a program's operations: values that the simulator runs on. Made by price.h.

struct CollectivePrice {
  Demand demand;
  // "ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain", "pat"; "table": a table
  // of the profile, whatever ran; "none": one rank.
  const char* algorithm = "ring";
  const char* protocol = "";  // NCCL's: "LL", "LL128", "Simple"; empty where NCCL is not modelled
  int channels = 0;           // thread blocks, each on a multiprocessor; 0 where not modelled
  // Bytes that a rank sends on the wire, mean over the group; what the textbook algorithm sends.
  double wire_bytes_per_rank = 0;
  // What the busiest rank must send or receive, over what it can; see BandwidthBound. Checked.
  Time bandwidth_bound;
};

// One end of a message that an exchange sends or receives.
struct MessagePrice {
  // Of the message by itself; what it uses at this end. The two ends of a message take the longer
  // latency and work.
  Demand demand;
  const char* protocol = "";  // as in CollectivePrice
  int channels = 0;
  Time bandwidth_bound;  // its bytes over the narrowest link of its route
};

// The price of everything in a program, one entry per entry of the program's tables, and the host
// time to issue each kind of instruction.
struct Prices {
  std::vector<Demand> kernels;
  std::vector<CollectivePrice> collectives;
  std::vector<std::vector<MessagePrice>> exchanges;  // [exchange][message]
  std::vector<Demand> copies;
  Time issue_kernel;
  Time issue_copy;
  Time issue_collective;  // and an exchange, whatever the number of its messages
  // What comes before the launch of a kernel, by whose code issues it.
  Dispatch dispatch;
  Time IssueOf(const Kernel& kernel) const { return issue_kernel + dispatch[kernel.issuer]; }
};

// What ranks of a kind run, on the devices and nodes that they have.
struct PricedKind {
  const program::Program* program = nullptr;
  const Prices* prices = nullptr;
  friend bool operator==(const PricedKind&, const PricedKind&) = default;
};

// The price of a collective, by its number in the first kind's program, in a group with ranks of
// all of these kinds: of their prices the one that takes longest, for they finish together
// (scenario/job_devices.h). A kind with other collectives counts for nothing.
const CollectivePrice& SlowestPrice(std::span<const PricedKind> kinds, program::Index collective);

}  // namespace stepcast::cost
