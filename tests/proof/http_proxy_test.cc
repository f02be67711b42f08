// The proxy loses what it is told to lose, and nothing else.
#include "tests/support/http_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace dedupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr absl::Duration kLimit = absl::Seconds(10);

// Answers every POST with its name and how many it has had.
class CountingServer {
 public:
  explicit CountingServer(const std::string& name) {
    server_.Post("/count", [this, name](const httplib::Request&,
                                        httplib::Response& response) {
      response.set_content(absl::StrCat(name, ++count_), "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // Or stop() would not be heard.
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~CountingServer() {
    server_.stop();
    thread_.join();
  }

  int port() const { return port_; }
  int count() const { return count_; }

 private:
  httplib::Server server_;
  std::atomic<int> count_{0};
  int port_ = 0;
  std::thread thread_;
};

class HttpProxyTest : public ::testing::Test {
 protected:
  // What a client gets through the proxy; "none" if nothing.
  std::string Post(const std::string& body = "{}") {
    httplib::Client client("127.0.0.1", proxy_->port());
    const httplib::Headers headers = {{"Idempotency-Key", "\"one\""}};
    const httplib::Result result =
        client.Post("/count", headers, body, "application/json");
    return result ? result->body : "none";
  }

  CountingServer server_{"a"};
  std::unique_ptr<HttpProxy> proxy_ =
      std::make_unique<HttpProxy>(server_.port());
};

TEST_F(HttpProxyTest, PassesAndRecordsWhatWasOnTheWire) {
  EXPECT_EQ(Post(R"({"amount":1})"), "a1");
  ASSERT_THAT(proxy_->requests(), SizeIs(1));
  const std::string request = proxy_->requests().front();
  EXPECT_THAT(request, StartsWith("POST /count HTTP/1.1\r\n"));
  EXPECT_THAT(request, EndsWith("\r\n\r\n{\"amount\":1}"));
  EXPECT_THAT(HeaderValues(request, "idempotency-key"), ElementsAre("\"one\""));
}

TEST_F(HttpProxyTest, RequestsOfOneConnectionAreTold) {
  httplib::Client client("127.0.0.1", proxy_->port());
  client.set_keep_alive(true);
  EXPECT_EQ(client.Post("/count", "1", "text/plain")->body, "a1");
  EXPECT_EQ(client.Post("/count", "22", "text/plain")->body, "a2");
  EXPECT_THAT(proxy_->requests(), ElementsAre(EndsWith("\n1"), EndsWith("22")));
}

TEST_F(HttpProxyTest, DroppedReplyWasGivenOnceAndNeverArrives) {
  proxy_->ForNext(1, ReplyFate::kReset);
  proxy_->ForNext(1, ReplyFate::kClose);
  EXPECT_EQ(Post(), "none");
  EXPECT_EQ(server_.count(), 1);
  EXPECT_EQ(proxy_->answered(), 1);
  EXPECT_EQ(Post(), "none");
  EXPECT_EQ(server_.count(), 2);
  EXPECT_EQ(Post(), "a3");
  EXPECT_THAT(proxy_->requests(), SizeIs(3));
}

TEST_F(HttpProxyTest, HeldReplyArrivesWhenReleased) {
  proxy_->ForNext(1, ReplyFate::kHold);
  std::atomic<bool> arrived = false;
  std::thread client([&] {
    EXPECT_EQ(Post(), "a1");
    arrived = true;
  });
  EXPECT_TRUE(proxy_->WaitForAnswered(1, kLimit));
  EXPECT_EQ(Post(), "a2");
  EXPECT_FALSE(arrived);
  proxy_->ReleaseHeld();
  client.join();
  EXPECT_TRUE(arrived);
}

TEST_F(HttpProxyTest, EndsWithAReplyHeld) {
  proxy_->ForNext(1, ReplyFate::kHold);
  std::thread client([port = proxy_->port()] {
    EXPECT_FALSE(httplib::Client("127.0.0.1", port).Post("/count", "", "a/b"));
  });
  EXPECT_TRUE(proxy_->WaitForAnswered(1, kLimit));
  proxy_.reset();
  client.join();
}

TEST_F(HttpProxyTest, UpstreamCanChange) {
  const CountingServer other("b");
  EXPECT_EQ(Post(), "a1");
  proxy_->SetUpstream(other.port());
  EXPECT_EQ(Post(), "b1");
  // Nobody listens there.
  proxy_->SetUpstream(1);
  EXPECT_EQ(Post(), "none");
  EXPECT_THAT(proxy_->requests(), SizeIs(3));
  EXPECT_EQ(proxy_->answered(), 2);
}

TEST_F(HttpProxyTest, ClientsBeyondTheBoundWaitTheirTurn) {
  proxy_ = std::make_unique<HttpProxy>(
      server_.port(), HttpProxy::Options{.connections_max = 1});
  proxy_->ForNext(1, ReplyFate::kHold);
  std::thread first([&] { EXPECT_EQ(Post(), "a1"); });
  ASSERT_TRUE(proxy_->WaitForAnswered(1, kLimit));
  std::thread second([&] { EXPECT_EQ(Post(), "a2"); });
  EXPECT_FALSE(proxy_->WaitForRequests(2, absl::Milliseconds(100)));
  proxy_->ReleaseHeld();
  first.join();
  second.join();
}

}  // namespace
}  // namespace dedupe::testing
