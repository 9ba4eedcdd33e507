#include "src/runtime/host/communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

namespace stepcast::runtime::host {
namespace {

// A communicator of one member with a scripted channel.
class FakeChannel : public Channel {
 public:
  explicit FakeChannel(std::function<void(const CollectiveCall&)> run) : run_(std::move(run)) {}
  Attempt<void> Run(const CollectiveCall& call) override {
    run_(call);
    return {};
  }
  Attempt<void> Exchange(std::span<const MessageCall>) override {
    return tl::unexpected(Failure{"this test sends no messages"});
  }

 private:
  std::function<void(const CollectiveCall&)> run_;
};

void CopyWhole(const CollectiveCall& call) {
  if (call.source == call.target) return;
  std::memcpy(call.target, call.source,
              static_cast<std::size_t>(call.elements * SizeOf(call.type)));
}

program::Collective AllReduce(std::int64_t bytes, DataType type) {
  program::Collective collective;
  collective.communicator = 0;
  collective.bytes = Bytes(bytes);
  collective.data_type = type;
  return collective;
}

TEST(Communicator, RunsCollectivesInHostOrderWhateverStreamComesFirst) {
  Communicator communicator(std::make_unique<FakeChannel>(CopyWhole), 1);
  const std::uint64_t first = communicator.TakeTicket();
  const std::uint64_t second = communicator.TakeTicket();
  std::vector<int> order;
  std::thread late([&] {
    ASSERT_TRUE(communicator.AwaitTurn(second));
    order.push_back(2);
    communicator.EndTurn();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(communicator.AwaitTurn(first));
  order.push_back(1);
  communicator.EndTurn();
  late.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Communicator, NobodyWaitsForATurnOnceItIsClosed) {
  Communicator communicator(std::make_unique<FakeChannel>(CopyWhole), 1);
  communicator.TakeTicket();
  const std::uint64_t second = communicator.TakeTicket();
  std::thread waiting([&] { EXPECT_FALSE(communicator.AwaitTurn(second)); });
  communicator.Close();
  waiting.join();
}

TEST(Communicator, ConvertsWhereASideHasAnotherType) {
  DataType sent = DataType::kFp32;
  Communicator communicator(std::make_unique<FakeChannel>([&](const CollectiveCall& call) {
                              sent = call.type;
                              CopyWhole(call);
                            }),
                            1);
  // 1 + 2^-10 lies between two bf16 numbers and rounds to 1.
  std::vector<float> source{1.0f + 0x1p-10f, -3.0f};
  std::vector<float> target(2, 0.0f);
  ASSERT_TRUE(communicator
                  .Run(AllReduce(4, DataType::kBf16), 2,
                       {reinterpret_cast<std::byte*>(source.data()), DataType::kFp32},
                       {reinterpret_cast<std::byte*>(target.data()), DataType::kFp32})
                  .has_value());
  EXPECT_EQ(sent, DataType::kBf16);
  EXPECT_EQ(target, (std::vector<float>{1.0f, -3.0f}));
}

TEST(Communicator, AWrongSumIsAFailure) {
  Communicator right(std::make_unique<FakeChannel>(CopyWhole), 1);
  EXPECT_TRUE(right.CheckSums(AllReduce(4000, DataType::kFp32), 0).has_value());
  Communicator wrong(std::make_unique<FakeChannel>([](const CollectiveCall& call) {
                       CopyWhole(call);
                       static_cast<float*>(call.target)[17] += 1;
                     }),
                     1);
  const Attempt<void> checked = wrong.CheckSums(AllReduce(4000, DataType::kFp32), 0);
  ASSERT_FALSE(checked.has_value());
  EXPECT_NE(checked.error().message.find("1 of 1000 elements are wrong: element 17"),
            std::string::npos)
      << checked.error().message;
}

TEST(Communicator, SaysThatItHasNoFp8) {
  Communicator communicator(std::make_unique<FakeChannel>(CopyWhole), 1);
  EXPECT_FALSE(communicator.CheckSums(AllReduce(16, DataType::kFp8), 0).has_value());
}

}  // namespace
}  // namespace stepcast::runtime::host
