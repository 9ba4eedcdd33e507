#pragma once

#include <string>

#include "src/runtime/device.h"

// MPI belongs to the process: it is started once, by the first caller, and ended once.
namespace stepcast::runtime {

class MpiSession {
 public:
  // Starts MPI for use by several threads at once (MPI_THREAD_MULTIPLE), or returns the session
  // that runs already. Any thread may call it. Fails when this stepcast was built without MPI, when
  // MPI cannot serve several threads, or when it was ended before. A process that no launcher
  // started is a job of one rank. A launcher that does not find its other ranks ends the process.
  //
  // While they wait, MPI's calls yield the core to other threads (mpi_yield_when_idle), unless the
  // environment says otherwise. Errors come back from MPI's calls and do not end the process.
  static Attempt<MpiSession*> Start();

  // The session that runs; null before Start and after Finish.
  static MpiSession* Current();

  // Whether MPI was compiled in.
  static bool Available();

  int rank() const { return rank_; }  // in MPI_COMM_WORLD
  int ranks() const { return ranks_; }

  // "Open MPI v4.1.4, ..." as the library calls itself, one line.
  std::string LibraryVersion() const;

  // Ends MPI: all ranks call it, each once its communicators are freed and nothing is in flight.
  // mpirun takes a rank that ends without it for a failed one.
  void Finish();

  // Ends all ranks of the job, as far as they can be reached, with this exit status.
  [[noreturn]] void Abort(int status);

 private:
  MpiSession(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  int rank_;
  int ranks_;
};

}  // namespace stepcast::runtime
