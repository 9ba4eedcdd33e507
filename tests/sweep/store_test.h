#pragma once

#include <signal.h>
#include <sqlite3.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"

// A command with a store, for tests that start it, disturb it and read the store.
namespace stepcast {

class StoreTest : public testing::Test {
 protected:
  // The number of results in the store, or none if it is not a store yet. Also checks its
  // integrity.
  std::int64_t Kept() const {
    if (!std::filesystem::exists(store_)) return 0;
    sqlite3* connection = nullptr;
    EXPECT_EQ(sqlite3_open_v2(store_.c_str(), &connection, SQLITE_OPEN_READWRITE, nullptr),
              SQLITE_OK);
    const auto ask = [&](const char* query) -> std::string {
      sqlite3_stmt* statement = nullptr;
      if (sqlite3_prepare_v2(connection, query, -1, &statement, nullptr) != SQLITE_OK) return "";
      std::string answer;
      if (sqlite3_step(statement) == SQLITE_ROW) {
        answer = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
      }
      sqlite3_finalize(statement);
      return answer;
    };
    EXPECT_EQ(ask("PRAGMA integrity_check"), "ok");
    const std::string tables = ask("SELECT count(*) FROM sqlite_master WHERE name = 'results'");
    const std::string kept = tables == "1" ? ask("SELECT count(*) FROM results") : "0";
    sqlite3_close(connection);
    return kept.empty() ? -1 : std::stoll(kept);
  }

  // Starts a command that ends by the signal of `kill`, or by itself.
  pid_t Start(const std::string& command) const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c",
              fmt::format("exec {} >'{}/out' 2>'{}/err'", command, folder_, folder_).c_str(),
              static_cast<char*>(nullptr));
      ::_exit(127);
    }
    return child;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // Waits until the store has results, for at most a minute.
  void AwaitResults() const {
    for (int i = 0; i < 6000; ++i) {
      std::error_code error;
      // The log of a store with results is larger than that of an empty store.
      const auto size = std::filesystem::file_size(store_ + "-wal", error);
      if (!error && size > std::uintmax_t{40} * 1024) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  static std::string Mpirun(int ranks) {
    return fmt::format(
        "mpirun --oversubscribe --allow-run-as-root --mca mpi_yield_when_idle 1 "
        "--mca btl self,vader,tcp -n {} ",
        ranks);
  }
  static bool NoMpirun() { return std::system("command -v mpirun >/dev/null") != 0; }

  std::string folder_, store_;
};

}  // namespace stepcast
