#include "src/runtime/mpi_session.h"

#include <gtest/gtest.h>

#include <thread>

namespace stepcast::runtime {
namespace {

// One test: a process can start MPI once.
TEST(MpiSession, StartsOnceAndEndsOnce) {
  if (!MpiSession::Available()) {
    EXPECT_FALSE(MpiSession::Start().has_value());
    EXPECT_EQ(MpiSession::Current(), nullptr);
    return;
  }
  EXPECT_EQ(MpiSession::Current(), nullptr);
  const auto session = MpiSession::Start();
  ASSERT_TRUE(session.has_value()) << session.error().message;
  EXPECT_EQ((*session)->rank(), 0);
  EXPECT_EQ((*session)->ranks(), 1);
  EXPECT_NE((*session)->LibraryVersion().find("MPI"), std::string::npos);

  MpiSession* second = nullptr;
  std::thread([&] { second = MpiSession::Start().value_or(nullptr); }).join();
  EXPECT_EQ(second, *session);
  EXPECT_EQ(MpiSession::Current(), *session);

  (*session)->Finish();
  EXPECT_EQ(MpiSession::Current(), nullptr);
  EXPECT_FALSE(MpiSession::Start().has_value());
}

}  // namespace
}  // namespace stepcast::runtime
