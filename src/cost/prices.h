#pragma once

#include <span>
#include <vector>

#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/program/program.h"

namespace stepcast::cost {

// The prices of a program's operations, used by the simulator. price.h creates them.

struct CollectivePrice {
  Demand demand;
  // "ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain", "pat"; "table": a table
  // of the profile; "none": one rank.
  const char* algorithm = "ring";
  const char* protocol = "";  // NCCL's: "LL", "LL128", "Simple"; empty if NCCL is not modeled
  int channels = 0;           // thread blocks, each on a multiprocessor; 0 if not modeled
  // The mean number of bytes that a rank sends on the wire, for the textbook algorithm.
  double wire_bytes_per_rank = 0;
  // The transfer time of the busiest rank over its bandwidth; see BandwidthBound. Prices are
  // checked against this bound.
  Time bandwidth_bound;
};

// The price of one end of a message that an exchange sends or receives.
struct MessagePrice {
  // The demand of the message by itself, with the resources at this end. Both ends take the longer
  // latency and work.
  Demand demand;
  const char* protocol = "";  // as in CollectivePrice
  int channels = 0;
  Time bandwidth_bound;  // its bytes over the narrowest link of its route
};

// The prices of a program: one entry per entry of the program's tables, and the host time to issue
// each kind of instruction.
struct Prices {
  std::vector<Demand> kernels;
  std::vector<CollectivePrice> collectives;
  std::vector<std::vector<MessagePrice>> exchanges;  // [exchange][message]
  std::vector<Demand> copies;
  Time issue_kernel;
  Time issue_copy;
  Time issue_collective;  // also for an exchange, whatever its number of messages
  // Host time before the launch of a kernel, by issuer.
  Dispatch dispatch;
  Time IssueOf(const Kernel& kernel) const { return issue_kernel + dispatch[kernel.issuer]; }
  // Returns the host time that an instruction of the program takes.
  Time IssueOf(const program::Program& program, const program::Instruction& instruction) const {
    switch (instruction.opcode) {
      case program::Opcode::kKernel:
        return IssueOf(program.kernels[instruction.operand]);
      case program::Opcode::kCopy:
        return issue_copy;
      case program::Opcode::kCollective:
      case program::Opcode::kExchange:
        return issue_collective;
      case program::Opcode::kHostTask:
        return program.host_tasks[instruction.operand].duration;
      default:
        return {};
    }
  }
};

// Ranks that run the same program and have equivalent peers. They are simulated once
// (simulate/simulate.h).
struct RankClass {
  const program::Program* program = nullptr;
  const Prices* prices = nullptr;
  int representative = 0;  // the class's lowest global rank
  // All ranks of the class, ascending. They determine the classes of the peers of exchanges. Empty:
  // the class contains the representative, and peers of its exchanges that are in no class.
  std::span<const int> ranks{};
  // The class's process groups if they differ from the program's; null otherwise.
  const std::vector<program::ProcessGroup>* groups = nullptr;
  bool records = true;  // false: the timeline contains only step ends
  // The operations to record with simulate::Recording::kMarked, by instruction of the step; null:
  // none.
  const std::vector<bool>* marked = nullptr;
  // Instructions [begin, end) of the step: simulate::HostInfluence covers the instructions issued
  // after `begin`. By default, all instructions.
  struct Part {
    program::Index begin = 0, end = 0;
  } looked_at{};

  // Whether the ranks are of one kind: the same program, priced for the same devices and nodes.
  bool IsAlike(const RankClass& other) const {
    return program == other.program && prices == other.prices;
  }
};

}  // namespace stepcast::cost
