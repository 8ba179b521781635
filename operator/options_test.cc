#include "operator/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp {
namespace {

using ::testing::HasSubstr;

TEST(Options, Defaults) {
  const auto parsed = ParseOptions({});
  ASSERT_TRUE(parsed.options);
  EXPECT_EQ(parsed.options->health_port, 8080);
  EXPECT_FALSE(parsed.options->metrics_port);
  EXPECT_EQ(parsed.options->lease_duration, std::chrono::seconds(15));
  EXPECT_EQ(parsed.options->name_space, "");
  EXPECT_FALSE(parsed.options->dry_run);
  EXPECT_FALSE(parsed.options->job_metrics);
  EXPECT_FALSE(parsed.options->network_policies);
  EXPECT_EQ(parsed.options->force_delete_after, std::chrono::seconds(600));
}

TEST(Options, TakesAll) {
  const auto parsed = ParseOptions({"--kubeconfig",
                                    "k",
                                    "--namespace=team",
                                    "--leader-elect",
                                    "--lease-namespace",
                                    "l",
                                    "--lease-duration",
                                    "2",
                                    "--workers",
                                    "8",
                                    "--health-port",
                                    "0",
                                    "--metrics-port",
                                    "8443",
                                    "--metrics-tls-cert-file",
                                    "c",
                                    "--metrics-tls-key-file",
                                    "y",
                                    "--metrics-token-file",
                                    "t",
                                    "--job-metrics",
                                    "--status-page-port",
                                    "0",
                                    "--network-policies",
                                    "--progress-from",
                                    "monitoring",
                                    "--progress-from=grafana",
                                    "--force-delete-after=0",
                                    "--dry-run",
                                    "--log-level",
                                    "debug"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  const Options& options = *parsed.options;
  EXPECT_EQ(options.name_space, "team");
  EXPECT_EQ(options.lease_duration, std::chrono::seconds(2));
  EXPECT_EQ(options.metrics_port, 8443);
  EXPECT_EQ(options.status_page_port, 0);
  EXPECT_EQ(options.metrics_certificate, "c");
  EXPECT_EQ(options.metrics_token_file, "t");
  EXPECT_EQ(options.progress_namespaces, (std::vector<std::string>{"monitoring", "grafana"}));
  EXPECT_FALSE(options.force_delete_after);
  EXPECT_TRUE(options.network_policies);
  EXPECT_TRUE(options.leader_elect && options.job_metrics && options.dry_run);
}

TEST(Options, SayWhatIsWrong) {
  struct Row {
    std::vector<std::string> arguments;
    const char* says;
  };
  for (const Row& row : {
           Row{{"--health-port", "70000"}, "--health-port"},
           Row{{"--workers", "0"}, "--workers"},
           Row{{"--no-such"}, "--no-such"},
           Row{{"--log-level", "loud"}, "--log-level"},
           Row{{"--force-delete-after", "-1"}, "--force-delete-after"},
           Row{{"--lease-duration", "1"}, "--lease-duration"},
           Row{{"--metrics-port", "1", "--metrics-tls-cert-file", "c"}, "--metrics-tls-key-file"},
           Row{{"--metrics-token-file", "t"}, "--metrics-port"},
           Row{{"--metrics-tls-cert-file", "c", "--metrics-tls-key-file", "k"}, "--metrics-port"},
           Row{{"--metrics-port", "8080"}, "--health-port"},
       }) {
    const auto parsed = ParseOptions(row.arguments);
    EXPECT_FALSE(parsed.options) << row.says;
    EXPECT_EQ(parsed.exit_code, 64) << row.says;
    EXPECT_THAT(parsed.text, HasSubstr(row.says));
  }
}

TEST(Options, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(ParseOptions({"--help"}).exit_code, 0);
  EXPECT_THAT(ParseOptions({"--help"}).text, HasSubstr("--leader-elect"));
  EXPECT_EQ(ParseOptions({"--version"}).exit_code, 0);
  EXPECT_THAT(ParseOptions({"--version"}).text, HasSubstr("ddp-operator "));
}

}  // namespace
}  // namespace ddp
