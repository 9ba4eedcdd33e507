#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "tl/expected.hpp"

struct sqlite3;
struct sqlite3_stmt;

// Results by key in a file (SQLite; docs/formats.md) that grows as they come, so that a search
// which was interrupted, in whatever way, goes on where it was. A result that Put took is in the
// file within milliseconds, whole; what is in the file survives the end of the process, and all but
// the last moments survive that of the machine.
namespace stepcast::planner {

// An input of a store's results beside their keys: the program, a file that was read, a setting. A
// store is for one list of facts.
struct StoreFact {
  std::string name;   // "grid", "file models/gpt2.yaml"; unique in the list
  std::string value;  // shown where it differs, unless it is a digest
  bool digest = false;
  friend bool operator==(const StoreFact&, const StoreFact&) = default;
};

// Why there is no store: wrong input (the file is something else, belongs to another run, cannot be
// written), or a failure (no room on the disk, another process has it open).
struct StoreFault {
  Diagnostics wrong_input;  // empty: a failure
  std::string failure;
};

class ResultStore {
 public:
  // The store in the file at `path`, which is made if there is none; an empty file counts as none.
  // No other process can open it until this one's end.
  static tl::expected<std::unique_ptr<ResultStore>, StoreFault> Open(
      const std::string& path, const std::vector<StoreFact>& facts);

  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  // These may be called by several threads at once.
  std::optional<std::string> Find(const std::string& key);
  // Takes a result; a thread of the store writes it. A key that is there already keeps its result.
  void Put(std::string key, std::string result);
  // A result of this store cannot be read: the file is of no use to a later run.
  void MarkDamaged() { damaged_ = true; }
  // MarkDamaged was called, or SQLite found the file malformed.
  bool damaged() const { return damaged_.load(); }
  // Whether everything could be written so far. If not, the rest never will be: Finish says why.
  bool good() const { return good_.load(); }

  // Waits until all is written. An error is a sentence with the system's reason; what was written
  // before it stays good.
  tl::expected<void, std::string> Finish();

  // How many results are in the file, for signal handlers.
  const std::atomic<std::int64_t>& kept() const { return kept_; }
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  ResultStore(std::string path, std::string target)
      : path_(std::move(path)), target_(std::move(target)) {}
  std::optional<StoreFault> Recognise();
  std::optional<StoreFault> Begin(const std::vector<StoreFact>& facts);
  std::optional<StoreFault> Create(const std::vector<StoreFact>& facts);
  std::optional<StoreFault> Check(const std::vector<StoreFact>& facts);
  std::optional<StoreFault> CheckResults();
  StoreFault Fault(int code) const;
  std::string Reason() const;
  std::string ReasonNotWritable() const;
  int Connect(int flags);
  int Execute(const char* statement);
  std::int64_t Number(const char* query);
  Statement Prepare(const char* statement);
  void WriteAsTheyCome();
  bool Write(const std::vector<std::pair<std::string, std::string>>& results);

  const std::string path_;    // as the caller wrote it, for messages
  const std::string target_;  // the same without links
  std::mutex connection_mutex_;
  std::unique_ptr<sqlite3, Close> connection_;
  Statement find_, put_;  // guarded by connection_mutex_, as the connection; end before it
  int system_error_ = 0;  // of the last statement that failed, if it had one; likewise

  std::atomic<std::int64_t> kept_{0};
  std::atomic<bool> good_{true};
  std::atomic<bool> damaged_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::string, std::string>> waiting_;  // guarded by mutex_
  bool writing_ = false;                                      // likewise
  bool ending_ = false;                                       // likewise
  std::string failure_;                                       // likewise
  std::thread writer_;
};

}  // namespace stepcast::planner
