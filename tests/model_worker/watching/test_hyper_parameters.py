"""Runs beside each other in TensorBoard's table of hyper-parameters, as its own backend makes it."""

import pytest
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import (
    api_pb2,
    backend_context,
    get_experiment,
    list_session_groups,
)

from model_worker.watching.summaries import Summaries
from shared.config.settings import Config, TaskConfig, TrainingConfig


def test_two_runs_are_compared_by_their_flags_and_their_losses(tmp_path):
    for name, rate, size in (("a", 0.001, "tiny"), ("b", 0.002, "small")):
        config = Config(
            training=TrainingConfig(learning_rate=rate), task=TaskConfig(model_size=size)
        )
        summaries = Summaries(tmp_path / name / "tensorboard", config)
        summaries.numbers({"step": 2, "loss": 1 + rate, "step_ms": 1.0})
        summaries.numbers({"step": 2, "val_loss": 2 + rate, "judged_by": "val_loss"})
        summaries.close()
    events = plugin_event_multiplexer.EventMultiplexer()
    events.AddRunsFromDirectory(str(tmp_path))
    events.Reload()
    provider = data_provider.MultiplexerDataProvider(events, str(tmp_path))
    table = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    asking = context.RequestContext()
    experiment = get_experiment.Handler(
        asking, table, "0", api_pb2.GetExperimentRequest(include_metrics=True)
    ).run()
    # What differs comes first.
    first = {info.name for info in experiment.hparam_infos[:2]}
    assert first == {"training/learning_rate", "task/model_size"}
    request = api_pb2.ListSessionGroupsRequest(slice_size=10, allowed_statuses=[0, 1, 2, 3])
    for info in experiment.metric_infos:
        request.col_params.add(metric=info.name)
    groups = list_session_groups.Handler(asking, table, "0", request).run().session_groups
    found = {}
    for group in groups:
        values = {value.name.tag: value.value for value in group.metric_values}
        rate = group.hparams["training/learning_rate"].number_value
        found[rate] = (values["training/loss"], values["validation/loss"])
    assert set(found) == {0.001, 0.002}
    assert found[0.001] == pytest.approx((1.001, 2.001))
    assert found[0.002] == pytest.approx((1.002, 2.002))
