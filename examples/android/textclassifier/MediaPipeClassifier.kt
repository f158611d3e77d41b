package com.example.textclassifier

import android.content.Context
import com.google.mediapipe.tasks.text.textclassifier.TextClassifier

/**
 * A text classifier on MediaPipe Tasks: the least code, and right for plain English.
 *
 * Takes files with one fixed length: `export.convert(classifier, "model.tflite", lengths=128)`. MediaPipe's tokenizer differs
 * from BERT's on accents and some spaces; where texts have them, use [LiteRtClassifier].
 */
class MediaPipeClassifier(context: Context, asset: String = "model.tflite") : AutoCloseable {
    private val classifier = TextClassifier.createFromFile(context, asset)

    /** All labels with their probabilities, the likeliest first. A text that is too long is cut. */
    fun classify(text: String): List<Pair<String, Float>> =
        classifier.classify(text).classificationResult().classifications().first().categories()
            .map { it.categoryName() to it.score() }
            .sortedByDescending { it.second }

    override fun close() = classifier.close()
}
