#include "src/planner/result_store.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/files.h"

namespace stepcast::planner {
namespace {

constexpr int kFormatVersion = 2;
constexpr int kApplication = 0x53746570;  // "Step"
// The longest value that is read or written; results are a few thousand bytes.
constexpr int kMostBytes = 16 << 20;
// The most facts read from a file.
constexpr std::size_t kMostFacts = 10'000;

// Facts and results are texts, apart from what results are made of.
constexpr const char* kTables =
    "CREATE TABLE facts (position INTEGER PRIMARY KEY, name TEXT NOT NULL, value TEXT NOT NULL,"
    " digest INTEGER NOT NULL);"
    "CREATE TABLE results (key TEXT PRIMARY KEY, result BLOB NOT NULL,"
    " digest TEXT NOT NULL) WITHOUT ROWID;";

std::string Text(sqlite3_stmt* statement, int column) {
  const void* const bytes = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  if (bytes == nullptr) return "";
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

// The exact schema of an open database; none if it cannot be read.
std::optional<std::string> SchemaOf(sqlite3* connection) {
  sqlite3_stmt* statement = nullptr;
  const int prepared = sqlite3_prepare_v2(
      connection, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name", -1,
      &statement, nullptr);
  if (prepared != SQLITE_OK) return std::nullopt;
  std::string schema;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW && schema.size() < kMostBytes) {
    for (int column = 0; column < 4; ++column) schema += Text(statement, column) + "\n";
  }
  sqlite3_finalize(statement);
  return code == SQLITE_DONE ? std::optional(schema) : std::nullopt;
}

// The schema of a store made by this program: what SQLite keeps of kTables.
const std::string& OwnSchema() {
  static const std::string schema = [] {
    sqlite3* connection = nullptr;
    std::optional<std::string> made;
    if (sqlite3_open(":memory:", &connection) == SQLITE_OK &&
        sqlite3_exec(connection, kTables, nullptr, nullptr, nullptr) == SQLITE_OK) {
      made = SchemaOf(connection);
    }
    sqlite3_close_v2(connection);
    STEPCAST_CHECK(made.has_value(), "SQLite must be able to create two tables in memory");
    return *made;
  }();
  return schema;
}

// The digest of a row, so that a result under a wrong key is rejected.
std::string DigestOf(std::string_view key, std::string_view result) {
  return ContentDigest(fmt::format("{}:{}{}", key.size(), key, result));
}

StoreFault WrongInput(const char* code, const std::string& path, std::string message,
                      std::string hint) {
  return {.wrong_input = {{code, {path, 0, 0}, std::move(message), std::move(hint)}},
          .failure = ""};
}

int BindText(sqlite3_stmt* statement, int column, const std::string& text) {
  return sqlite3_bind_text64(statement, column, text.data(), text.size(), SQLITE_TRANSIENT,
                             SQLITE_UTF8);
}

// Prevents special meanings of some names in SQLite: ":memory:", "file:...".
std::string AsAFile(const std::string& path) { return path.starts_with('/') ? path : "./" + path; }

// Why this run cannot use a store with those facts; empty if it can.
std::string Differences(const std::vector<StoreFact>& then, const std::vector<StoreFact>& now) {
  const auto find = [](const std::vector<StoreFact>& facts,
                       const std::string& name) -> const StoreFact* {
    for (const StoreFact& fact : facts) {
      if (fact.name == name) return &fact;
    }
    return nullptr;
  };
  std::vector<std::string> differences;
  for (const StoreFact& fact : now) {
    const StoreFact* const old = find(then, fact.name);
    if (old == nullptr) {
      differences.push_back(fmt::format("{} is new", fact.name));
    } else if (old->value == fact.value) {
      continue;
    } else if (fact.digest) {
      differences.push_back(fmt::format("{} has changed", fact.name));
    } else {
      differences.push_back(fmt::format("{} was {} before and is {} now", fact.name,
                                        Quoted(old->value), Quoted(fact.value)));
    }
  }
  for (const StoreFact& fact : then) {
    if (find(now, fact.name) == nullptr) {
      differences.push_back(fmt::format("{} is gone", fact.name));
    }
  }
  return fmt::format("{}", fmt::join(differences, "; "));
}

}  // namespace

void ResultStore::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
void ResultStore::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

tl::expected<std::unique_ptr<ResultStore>, StoreFault> ResultStore::Open(
    const std::string& path, const std::vector<StoreFact>& facts) {
  const auto destination = FollowTrustedLinks(path);
  if (!destination) {
    return tl::unexpected(WrongInput("store.cannot-write", path, destination.error(),
                                     "write --store with a file that stepcast can create"));
  }
  if (destination->descriptor || (destination->status && !S_ISREG(destination->status->st_mode))) {
    return tl::unexpected(
        WrongInput("store.cannot-write", path,
                   !destination->descriptor && S_ISDIR(destination->status->st_mode)
                       ? "the store cannot be written, because the path is a directory"
                       : "the store cannot be written, because the path is not a file",
                   "write --store with a file that stepcast can create"));
  }
  std::unique_ptr<ResultStore> store(new ResultStore(path, destination->path));
  if (std::optional<StoreFault> fault = store->Begin(facts)) return tl::unexpected(*fault);
  store->writer_ = std::thread([raw = store.get()] { raw->WriteAsTheyCome(); });
  return store;
}

ResultStore::~ResultStore() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
}

int ResultStore::Connect(int flags) {
  sqlite3* connection = nullptr;
  const int opened =
      sqlite3_open_v2(AsAFile(target_).c_str(), &connection, flags | SQLITE_OPEN_NOFOLLOW, nullptr);
  connection_.reset(connection);
  if (opened == SQLITE_OK) {
    sqlite3_extended_result_codes(connection, 1);
    // The file may be untrusted: its schema must not run code, and only SQL may write to it.
    sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(connection, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(connection, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(connection, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, kMostBytes);
  }
  return opened;
}

std::int64_t ResultStore::Number(const char* query) {
  const Statement statement = Prepare(query);
  if (statement == nullptr || sqlite3_step(statement.get()) != SQLITE_ROW) return -1;
  return sqlite3_column_int64(statement.get(), 0);
}

// Only reads: a mistyped name must not alter another database.
std::optional<StoreFault> ResultStore::Recognise() {
  std::error_code error;
  if (!std::filesystem::exists(target_, error) || std::filesystem::file_size(target_, error) == 0) {
    return std::nullopt;
  }
  if (const int code = Connect(SQLITE_OPEN_READWRITE); code != SQLITE_OK) return Fault(code);
  const std::int64_t tables = Number("SELECT count(*) FROM sqlite_master");
  if (tables < 0) return Fault(sqlite3_extended_errcode(connection_.get()));
  // A process that was killed while creating a store leaves a database without tables.
  if (tables == 0 || Number("PRAGMA application_id") == kApplication) return std::nullopt;
  return WrongInput("store.not-a-store", path_, "this database is not a store of stepcast",
                    "write --store with another file");
}

std::optional<StoreFault> ResultStore::Begin(const std::vector<StoreFact>& facts) {
  if (std::optional<StoreFault> fault = Recognise()) return fault;
  connection_.reset();
  if (const int code = Connect(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE); code != SQLITE_OK) {
    return Fault(code);
  }
  // The lock is held from the first access to the end. With the write-ahead log a commit is one
  // append that does not wait for the disk; with an exclusive lock it also works on network file
  // systems.
  for (const char* statement : {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL",
                                "PRAGMA synchronous=NORMAL", "BEGIN IMMEDIATE", "COMMIT"}) {
    if (const int code = Execute(statement); code != SQLITE_OK) return Fault(code);
  }
  const std::int64_t tables = Number("SELECT count(*) FROM sqlite_master");
  if (tables < 0) return Fault(sqlite3_extended_errcode(connection_.get()));
  std::optional<StoreFault> fault;
  if (tables == 0) {
    fault = Create(facts);
  } else if (const std::int64_t version = Number("PRAGMA user_version");
             version != kFormatVersion) {
    fault = WrongInput("store.other-format", path_,
                       fmt::format("this program reads version {} of the store's format, not "
                                   "version {}",
                                   kFormatVersion, version),
                       "use the version of stepcast that wrote the store, or write --store with "
                       "another file to start again");
  } else if (SchemaOf(connection_.get()) != OwnSchema()) {
    fault = WrongInput("store.not-a-store", path_,
                       "this store was changed: its tables differ from the tables that stepcast "
                       "writes",
                       "remove the store to start again");
  } else {
    fault = Check(facts);
  }
  if (fault) return fault;
  find_ = Prepare("SELECT result FROM results WHERE key = ?");
  put_ = Prepare("INSERT OR IGNORE INTO results VALUES (?, ?, ?)");
  if (find_ == nullptr || put_ == nullptr) {
    return Fault(sqlite3_extended_errcode(connection_.get()));
  }
  return CheckResults();
}

std::optional<StoreFault> ResultStore::CheckResults() {
  const Statement query = Prepare("SELECT key, result, digest FROM results");
  if (query == nullptr) return Fault(sqlite3_extended_errcode(connection_.get()));
  std::int64_t kept = 0;
  int code = SQLITE_ROW;
  for (; (code = sqlite3_step(query.get())) == SQLITE_ROW; ++kept) {
    const std::string key = Text(query.get(), 0);
    if (Text(query.get(), 2) == DigestOf(key, Text(query.get(), 1))) continue;
    return WrongInput(
        "store.damaged", path_,
        fmt::format("this store is damaged: a stored entry is not a result of {}", Quoted(key)),
        "remove the store to start again");
  }
  if (code != SQLITE_DONE) return Fault(code);
  kept_ = kept;
  return std::nullopt;
}

std::optional<StoreFault> ResultStore::Create(const std::vector<StoreFact>& facts) {
  // All or nothing: a store without its facts would accept any.
  const auto run = [&](const std::string& statement) { return Execute(statement.c_str()); };
  int code = run("BEGIN");
  if (code == SQLITE_OK) code = run(kTables);
  if (code == SQLITE_OK) code = run(fmt::format("PRAGMA application_id={}", kApplication));
  if (code == SQLITE_OK) code = run(fmt::format("PRAGMA user_version={}", kFormatVersion));
  if (code == SQLITE_OK) {
    const Statement add = Prepare("INSERT INTO facts VALUES (?, ?, ?, ?)");
    if (add == nullptr) return Fault(sqlite3_extended_errcode(connection_.get()));
    for (std::size_t i = 0; i < facts.size() && code == SQLITE_OK; ++i) {
      sqlite3_bind_int64(add.get(), 1, static_cast<std::int64_t>(i));
      BindText(add.get(), 2, facts[i].name);
      BindText(add.get(), 3, facts[i].value);
      sqlite3_bind_int(add.get(), 4, facts[i].digest ? 1 : 0);
      if (const int stepped = sqlite3_step(add.get()); stepped != SQLITE_DONE) code = stepped;
      sqlite3_reset(add.get());
    }
  }
  if (code == SQLITE_OK) code = run("COMMIT");
  if (code != SQLITE_OK) return Fault(code);
  return std::nullopt;
}

std::optional<StoreFault> ResultStore::Check(const std::vector<StoreFact>& facts) {
  const Statement query = Prepare("SELECT name, value, digest FROM facts ORDER BY position");
  if (query == nullptr) return Fault(sqlite3_extended_errcode(connection_.get()));
  std::vector<StoreFact> then;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(query.get())) == SQLITE_ROW) {
    if (then.size() == kMostFacts) {
      return WrongInput("store.not-a-store", path_,
                        "this store was changed: it has more rows than stepcast writes",
                        "remove the store to start again");
    }
    then.push_back(
        {Text(query.get(), 0), Text(query.get(), 1), sqlite3_column_int(query.get(), 2) != 0});
  }
  if (code != SQLITE_DONE) return Fault(code);
  const std::string differences = Differences(then, facts);
  if (differences.empty()) return std::nullopt;
  return WrongInput("store.other-run", path_,
                    fmt::format("this store was made by another run: {}", differences),
                    "write --store with another file, or remove this store to start again");
}

StoreFault ResultStore::Fault(int code) const {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {{},
              fmt::format("another process uses the store '{}': wait until the process ends, or "
                          "write --store with another file",
                          path_)};
    case SQLITE_NOTADB:
      return WrongInput("store.not-a-store", path_, "this file is not a store of stepcast",
                        "write --store with another file");
    case SQLITE_CORRUPT:
    case SQLITE_TOOBIG:
      return WrongInput("store.not-a-store", path_, "this store is damaged",
                        "remove the store to start again");
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return WrongInput("store.cannot-write", path_,
                        fmt::format("the store cannot be written: {}", ReasonNotWritable()),
                        "write --store with a file in an existing, writable folder");
    default:
      return {{}, fmt::format("cannot write the store '{}': {}", path_, Reason())};
  }
}

std::string ResultStore::Reason() const {
  int system = sqlite3_system_errno(connection_.get());
  // SQLite does not keep the cause of a failed write, unless the disk is full.
  if ((sqlite3_errcode(connection_.get()) & 0xff) == SQLITE_IOERR) system = system_error_;
  return system != 0 ? std::strerror(system) : sqlite3_errmsg(connection_.get());
}

// The reason of a failed write; SQLite falls back to opening read-only and reports only that.
std::string ResultStore::ReasonNotWritable() const {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(target_).parent_path();
  const bool there = std::filesystem::exists(target_, error);
  const std::string written = there ? target_ : folder.empty() ? "." : folder.string();
  return ::access(written.c_str(), W_OK) == 0 ? Reason() : std::strerror(errno);
}

int ResultStore::Execute(const char* statement) {
  errno = 0;
  const int code = sqlite3_exec(connection_.get(), statement, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) system_error_ = errno;
  return code;
}

ResultStore::Statement ResultStore::Prepare(const char* statement) {
  sqlite3_stmt* prepared = nullptr;
  sqlite3_prepare_v2(connection_.get(), statement, -1, &prepared, nullptr);
  return Statement(prepared);
}

std::optional<std::string> ResultStore::Find(const std::string& key) {
  const std::lock_guard lock(connection_mutex_);
  BindText(find_.get(), 1, key);
  std::optional<std::string> result;
  if (sqlite3_step(find_.get()) == SQLITE_ROW) result = Text(find_.get(), 0);
  sqlite3_reset(find_.get());
  return result;
}

void ResultStore::Put(std::string key, std::string result) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(std::move(key), std::move(result));
  }
  changed_.notify_all();
}

tl::expected<void, std::string> ResultStore::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !good_ || (waiting_.empty() && !writing_); });
  if (good_) return {};
  return tl::unexpected(failure_);
}

// Each commit contains the results that arrived during the previous one: fast results share a
// commit, and a single one does not wait.
void ResultStore::WriteAsTheyCome() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto results = std::exchange(waiting_, {});
    if (!good_) continue;
    writing_ = true;
    lock.unlock();
    const bool written = Write(results);
    std::string failure;
    if (!written) {
      const std::lock_guard connection_lock(connection_mutex_);
      failure = fmt::format("cannot write the store '{}': {}", path_, Reason());
      const int code = sqlite3_errcode(connection_.get()) & 0xff;
      if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
        MarkDamaged();
        failure = fmt::format("the store '{}' is damaged: remove the store to start again", path_);
      }
      Execute("ROLLBACK");
    }
    lock.lock();
    writing_ = false;
    if (!written) {
      failure_ = std::move(failure);
      good_ = false;
    }
    changed_.notify_all();
  }
}

bool ResultStore::Write(const std::vector<std::pair<std::string, std::string>>& results) {
  const std::lock_guard lock(connection_mutex_);
  if (Execute("BEGIN") != SQLITE_OK) return false;
  std::int64_t added = 0;
  for (const auto& [key, result] : results) {
    BindText(put_.get(), 1, key);
    sqlite3_bind_blob64(put_.get(), 2, result.data(), result.size(), SQLITE_STATIC);
    BindText(put_.get(), 3, DigestOf(key, result));
    errno = 0;
    const int code = sqlite3_step(put_.get());
    if (code != SQLITE_DONE) system_error_ = errno;
    if (code == SQLITE_DONE) added += sqlite3_changes(connection_.get());
    sqlite3_reset(put_.get());
    if (code != SQLITE_DONE) return false;
  }
  if (Execute("COMMIT") != SQLITE_OK) return false;
  kept_ += added;
  return true;
}

}  // namespace stepcast::planner
