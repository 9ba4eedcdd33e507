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

// Stores results by key in an SQLite file (docs/formats.md), so that an interrupted search can
// continue. Results are written within milliseconds after Put. If the process is killed, the file
// remains valid. If the machine crashes, only the most recent results are lost.
namespace stepcast::planner {

// A property, other than the keys, on which a store's results depend: the program, an input file,
// or a setting. A store is valid only for one list of properties.
struct StoreFact {
  std::string name;   // "grid", "file models/gpt2.yaml"; unique in the list
  std::string value;  // messages show a value that differs, unless it is a digest
  bool digest = false;
  friend bool operator==(const StoreFact&, const StoreFact&) = default;
};

// The reason why a store cannot be opened. `wrong_input`: the file is not a store, belongs to
// another run, or cannot be written. `failure`: the disk is full, or another process uses the
// store.
struct StoreFault {
  Diagnostics wrong_input;  // empty: see `failure`
  std::string failure;
};

class ResultStore {
 public:
  // Opens the store at `path`. Creates the store if the file does not exist or is empty. No other
  // process can open the store while this object exists.
  static tl::expected<std::unique_ptr<ResultStore>, StoreFault> Open(
      const std::string& path, const std::vector<StoreFact>& facts);

  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  // The following functions are thread-safe.
  std::optional<std::string> Find(const std::string& key);
  // Stores a result. A thread of the store writes the result to the file. Does nothing if the key
  // exists.
  void Put(std::string key, std::string result);
  // Marks the file as damaged because a result cannot be decoded. Later runs do not use the file.
  void MarkDamaged() { damaged_ = true; }
  // Returns whether MarkDamaged was called, or SQLite found the file malformed.
  bool damaged() const { return damaged_.load(); }
  // Returns whether all writes succeeded. After a failed write, nothing more is written, and Finish
  // returns the error.
  bool good() const { return good_.load(); }

  // Waits until all results are written. Errors are returned as sentences with the system's reason.
  // Results that were written before an error remain valid.
  tl::expected<void, std::string> Finish();

  // Returns the number of results in the file. May be called in signal handlers.
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

  const std::string path_;    // path from the caller, for messages
  const std::string target_;  // `path_` with links resolved
  std::mutex connection_mutex_;
  std::unique_ptr<sqlite3, Close> connection_;
  Statement find_, put_;  // guarded by connection_mutex_; destroyed before connection_
  int system_error_ = 0;  // error of the last failed statement, or 0; guarded by connection_mutex_

  std::atomic<std::int64_t> kept_{0};
  std::atomic<bool> good_{true};
  std::atomic<bool> damaged_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::string, std::string>> waiting_;  // guarded by mutex_
  bool writing_ = false;                                      // guarded by mutex_
  bool ending_ = false;                                       // guarded by mutex_
  std::string failure_;                                       // guarded by mutex_
  std::thread writer_;
};

}  // namespace stepcast::planner
