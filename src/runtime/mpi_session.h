#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/messaging/mailbox.h"
#include "src/runtime/device.h"
#include "src/runtime/job.h"

// The process's MPI library: the first call of Start initializes it, and Finish ends it, once.
namespace stepcast::runtime {

class MpiSession {
 public:
  // Starts MPI for several threads at once (MPI_THREAD_MULTIPLE), or returns the running session.
  // Thread-safe. Fails if stepcast was built without MPI, if MPI does not support several threads,
  // or after Finish. Without a launcher, the process is a job of one rank. If the launcher does not
  // find the other ranks, it ends the process.
  //
  // While they wait, MPI's calls yield the core to other threads (mpi_yield_when_idle), unless an
  // environment variable disables this. MPI's errors are returned and do not end the process.
  static Attempt<MpiSession*> Start();

  // Returns the running session; null before Start and after Finish.
  static MpiSession* Current();

  // Returns whether MPI was compiled in.
  static bool Available();

  int rank() const { return rank_; }  // rank in MPI_COMM_WORLD
  int ranks() const { return ranks_; }

  // Returns the library's description of itself on one line: "Open MPI v4.1.4, ...".
  std::string LibraryVersion() const;

  // Ends MPI. All ranks call this function after they have freed their communicators, when no
  // communication is in flight. If a rank exits without this call, mpirun reports a failure of this
  // rank.
  void Finish();

  // Ends all reachable ranks of the job with this exit status.
  [[noreturn]] void Abort(int status);

 private:
  MpiSession(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  int rank_;
  int ranks_;
};

// Converts an MPI return code to a failure with the text "MPI cannot <doing>: <MPI's message>".
Attempt<void> CheckMpi(int code, std::string_view doing);

// Joins the job of the processes started by mpirun, or by srun with PMI. Starts MPI
// (mpi_session.h), and creates a communicator for the job. All ranks call this function together,
// once per process. Fails if stepcast was built without MPI.
Attempt<std::unique_ptr<Job>> JoinMpi();

// Opens the mailbox of the processes started by mpirun, or by srun with PMI, and creates a
// communicator for the mailbox. All ranks call this function together, once each; MPI must be
// running (mpi_session.h). Fails if stepcast was built without MPI.
Attempt<std::unique_ptr<messaging::Mailbox>> OpenMpiMailbox();

}  // namespace stepcast::runtime
