#include "src/report/message_arrows.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/examples/test_program.h"

namespace stepcast::report {
namespace {

using program::TestProgram;

// A rank in a pipeline of three stages. Its exchanges ran in sequence, the last issued first. Only
// the order in the program pairs sends and receives.
struct Stage {
  Stage(int rank, std::vector<std::vector<program::Message>> exchanges, std::uint32_t steps = 1)
      : test(1) {
    const program::Index pipeline = test.AddCommunicator("pipeline", {0, 4, 8});
    test.program().rank = rank;
    test.Step();
    for (auto& messages : exchanges) test.Exchange(0, test.AddExchange(pipeline, messages));
    for (std::uint32_t step = 0; step < steps; ++step) {
      for (std::size_t i = exchanges.size(); i-- > 0;) {
        timeline.operations.push_back(
            {.instruction = static_cast<program::Index>(i), .step = step});
      }
    }
  }
  TestProgram test;
  program::Timeline timeline;
};

std::vector<MessageArrow> Arrows(const std::vector<Stage>& stages) {
  std::vector<RankTimeline> ranks;
  for (const Stage& stage : stages) ranks.push_back({&stage.test.program(), &stage.timeline});
  return MessageArrows(ranks);
}

program::Message Send(int position) { return TestProgram::Send(position, Bytes(8)); }
program::Message Receive(int position) { return TestProgram::Receive(position, Bytes(8)); }

// Rank 0 sends two messages. Rank 4 receives them and answers the second one in the same exchange.
// Records are in the reverse order of the program: its first exchange is record 1 (also on rank 4).
TEST(MessageArrowsTest, TheKthSendGoesToTheKthReceive) {
  const std::vector<Stage> stages = {Stage(0, {{Send(1)}, {Send(1), Receive(1)}}),
                                     Stage(4, {{Receive(0)}, {Receive(0), Send(0)}})};
  EXPECT_EQ(Arrows(stages),
            (std::vector<MessageArrow>{{.from_rank = 1, .to_rank = 0, .send = 0, .receive = 0},
                                       {.from_rank = 0, .to_rank = 1, .send = 1, .receive = 1},
                                       {.from_rank = 0, .to_rank = 1, .send = 0, .receive = 0}}));
}

TEST(MessageArrowsTest, StepsAreApart) {
  const std::vector<Stage> stages = {Stage(0, {{Send(1)}}, 2), Stage(4, {{Receive(0)}}, 2)};
  EXPECT_EQ(Arrows(stages),
            (std::vector<MessageArrow>{{.from_rank = 0, .to_rank = 1, .send = 0, .receive = 0},
                                       {.from_rank = 0, .to_rank = 1, .send = 1, .receive = 1}}));
}

// Rank 8 belongs to another class, whose timeline is not shown.
TEST(MessageArrowsTest, AnEndThatIsNotShownHasNoArrow) {
  EXPECT_TRUE(Arrows({Stage(4, {{Send(2)}, {Receive(2)}})}).empty());
}

}  // namespace
}  // namespace stepcast::report
