#pragma once

#include <optional>
#include <string>

#include "src/runtime/device.h"

// The secret that only the ranks of a job know. Their launcher gives it to all
// (STEPCAST_JOB_SECRET, STEPCAST_JOB_SECRET_FILE). Where all ranks are of one machine, rank 0 can
// leave it to the others in a file that only their user may read.
namespace stepcast::runtime {

// Fewer bytes could be guessed.
inline constexpr std::size_t kShortestSecret = 16;

// The file's contents, without the line end. Failures: it is not a plain file of this user's that
// other users may not read or write, or holds too little.
Attempt<std::string> ReadSecret(const std::string& path);

// The file of a job of this user on this machine.
class SharedSecret {
 public:
  // `job` tells the jobs of one user apart.
  explicit SharedSecret(std::string job) : job_(std::move(job)) {}
  SharedSecret(SharedSecret&& other) noexcept;
  SharedSecret& operator=(SharedSecret&&) = delete;
  // Removes the file that this object has written.
  ~SharedSecret();

  // At rank 0: writes a new one. Failures: another user has the folder.
  Attempt<std::string> Write();
  // At the others; nothing as long as there is none.
  Attempt<std::optional<std::string>> Read() const;

 private:
  Attempt<std::string> Path() const;

  std::string job_;
  std::string written_;
};

}  // namespace stepcast::runtime
