"""Give a trained model another attention: what it costs in each layer, and what it takes to heal.

result = retrofit("smollm2", request_of(variants=("tied-kv", "window:256")))
print(result.to_dict()["variants"][0]["costs"])

request      what is asked for
texts        the text in the tokens of the model: to fit on, to judge on, to heal on
conversion   weights for another attention, without training
costs        the loss with one layer converted, and the layers for a budget
healing      layer-wise distillation, then finetuning, over seeds
gains        parameters, cache and speed
folder       the files of a retrofit, and how far it is
forecast     the time and the memory that a request takes
study        all of it in one folder, from which the same request resumes
result       what was found
reading      a result read from its folder
page         one offline page, and the tables of the terminal
saving       retrofitted models as folders for Transformers
"""

from attnlab.retrofit.request import RetrofitRequest, request_of
from attnlab.retrofit.result import RetrofitResult, VariantResult
from attnlab.retrofit.saving import save_for_transformers, save_retrofitted
from attnlab.retrofit.study import retrofit

__all__ = [
    "RetrofitRequest",
    "RetrofitResult",
    "VariantResult",
    "request_of",
    "retrofit",
    "save_for_transformers",
    "save_retrofitted",
]
