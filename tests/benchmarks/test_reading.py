"""200 sentences with numbers, dates and abbreviations are read as people read them."""

import pytest
import reading


@pytest.fixture(scope="module", params=reading.LANGUAGES)
def language(request):
    return request.param


def test_at_least_95_in_100_sentences_are_read_right(language):
    judge = reading.Judge(reading.LANGUAGES[language])
    found = reading.sentences(reading.HERE / "readings" / f"{language}.tsv")
    wrong = [each.text for each in found if not judge.is_right(each)]
    assert len(found) == 100 and len(wrong) <= 5, wrong


def test_espeak_alone_reads_most_of_them_wrong(language, monkeypatch):
    judge = reading.Judge(reading.LANGUAGES[language])
    monkeypatch.setattr(judge._frontend, "read", lambda text: text)
    found = reading.sentences(reading.HERE / "readings" / f"{language}.tsv")
    assert sum(judge.is_right(each) for each in found) < 50


def test_a_reading_is_not_right_because_it_is_near(language):
    judge = reading.Judge(reading.LANGUAGES[language])
    number = {"en": "twelve", "de": "zwölf"}[language]
    assert judge.is_right(reading.Sentence("number", "12", [number]))
    assert not judge.is_right(reading.Sentence("number", "13", [number]))


def test_no_sentence_stands_twice(language):
    for name in (language, f"{language}-held-out"):
        texts = [each.text for each in reading.sentences(reading.HERE / "readings" / f"{name}.tsv")]
        assert len(texts) == len(set(texts))
