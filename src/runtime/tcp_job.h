#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "src/runtime/job.h"

// A job whose ranks are processes that know each other by torchrun's environment: rank, number of
// ranks, and the address and port of rank 0. For machines without MPI.
namespace stepcast::runtime {

struct Rendezvous {
  int rank = 0;
  int ranks = 1;
  std::string address;  // MASTER_ADDR: where rank 0 is
  int port = 0;         // MASTER_PORT: the first of kPorts that are tried
  // torchrun's agent has taken MASTER_PORT for its own store; the next ones are tried.
  bool port_taken = false;
  int local_rank = -1;  // LOCAL_RANK; -1: not known
  std::string run_id;   // tells jobs apart that meet at one address
  std::chrono::seconds timeout = std::chrono::seconds(120);  // until all ranks have come
};
inline constexpr int kPorts = 16;

// All ranks call this. Failures name who did not come, or where nobody was found.
Attempt<std::unique_ptr<Job>> JoinTcp(const Rendezvous& rendezvous);

}  // namespace stepcast::runtime
