"""What the layer check refuses and what it lets pass."""

import unittest

import layers


def problems(path, *included):
    text = "".join(f'#include "{name}"\n' for name in included)
    return list(layers.problems_of(path, text, {}))


class Layers(unittest.TestCase):
    def test_a_folder_may_use_itself_and_those_above_it(self):
        self.assertEqual(
            problems(
                "operator/ddpjob/plan.cc",
                "operator/ddpjob/plan.h",
                "operator/base/clock.h",
                "vector",
            ),
            [],
        )

    def test_a_folder_may_not_use_those_below_it(self):
        self.assertEqual(
            problems("operator/json/json.cc", "operator/base/result.h", "operator/api/types.h"),
            [
                "operator/json/json.cc:2: includes operator/api/types.h: api is not above json in the layer table"
            ],
        )

    def test_a_program_may_use_every_layer_of_its_column(self):
        self.assertEqual(problems("operator/main.cc", "operator/cli/run.h"), [])

    def test_the_columns_do_not_know_each_other(self):
        self.assertEqual(len(problems("runtime/base/env.cc", "operator/base/log.h")), 1)
        self.assertEqual(len(problems("operator/base/log.cc", "runtime/base/log.h")), 1)

    def test_a_folder_outside_the_table_is_named(self):
        self.assertIn(
            "is in no layer", problems("operator/kube/client.cc", "operator/util/strings.h")[0]
        )

    def test_the_public_api_shows_the_engine_but_nothing_built_on_it(self):
        self.assertEqual(problems("runtime/include/ddp/ddp.h", "runtime/ddp/data_parallel.h"), [])
        self.assertEqual(len(problems("runtime/include/ddp/ddp.h", "runtime/train/trainer.h")), 1)

    def test_collectives_take_no_tensors_and_the_controller_no_jobs(self):
        self.assertEqual(len(problems("runtime/comm/types.h", "ATen/ATen.h")), 1)
        self.assertEqual(len(problems("operator/controller/manager.h", "operator/api/types.h")), 1)

    def test_a_library_stays_behind_its_interface(self):
        self.assertEqual(problems("operator/kube/http.cc", "cpprest/http_client.h"), [])
        self.assertEqual(len(problems("operator/controller/queue.cc", "cpprest/http_client.h")), 1)


if __name__ == "__main__":
    unittest.main()
