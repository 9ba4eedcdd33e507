#pragma once

#include <chrono>
#include <functional>
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
  int local_rank = -1;       // LOCAL_RANK; -1: not known
  bool one_machine = false;  // all ranks are known to be on one
  std::string run_id;        // tells jobs apart that meet at one address
  // The job's secret, known to its ranks only. Empty where they are on one machine: rank 0 draws
  // one and writes it into a file that only this user may read (job_secret.h).
  std::string secret;
  std::chrono::seconds timeout = std::chrono::seconds(120);  // until all ranks have come
  // Told, at rank 0, of connections that were turned away: a sentence without full stop, once.
  std::function<void(const std::string& sentence)> note{};
};
inline constexpr int kPorts = 16;

// "localhost" or an address of the loopback interface: all ranks are on one machine.
bool IsLoopback(const std::string& address);

// All ranks call this. Rank 0 listens at the interface that MASTER_ADDR belongs to. Ranks prove to
// each other that they know the secret; connections that do not are refused and disturb nothing.
// Failures name the ranks that are missing, or the address at which rank 0 was not found.
Attempt<std::unique_ptr<Job>> JoinTcp(const Rendezvous& rendezvous);

}  // namespace stepcast::runtime
