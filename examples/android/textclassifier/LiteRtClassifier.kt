package com.example.textclassifier

import android.content.Context
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import java.io.FileInputStream
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import org.json.JSONObject

/**
 * A text classifier on LiteRT with BERT's own tokenizer: the answers of the Keras model, for every language.
 *
 * Takes files with fixed lengths: `export.convert(classifier, "model.tflite", lengths=(32, 128))`. Not thread-safe: call it
 * from one background thread.
 */
class LiteRtClassifier(context: Context, asset: String = "model.tflite") : AutoCloseable {
    private val files = ModelFiles.read(mapAsset(context, asset))
    private val about = JSONObject(files["keras_bert_task.json"] ?: "{}")
    private val lengths = (about.optJSONObject("signatures") ?: JSONObject()).let { signatures ->
        // A dynamic length is null in the file, and 0 here.
        signatures.keys().asSequence().map { it to signatures.optInt(it) }.sortedBy { it.second }.toList()
    }

    init {
        val isClassifier = about.optString("task") == "classification" && "labels.txt" in files
        require(about.optInt("format") == 1 && isClassifier && lengths.isNotEmpty() && lengths[0].second > 0) {
            "$asset is no classifier with labels and fixed lengths; write one with export.convert(…, lengths=128)."
        }
    }

    // The most tokens of a text: what the file takes, and no more than the model was trained with.
    private val longest = minOf(lengths.last().second, about.getJSONObject("settings").optInt("sequence_length", 512))
    private val labels = lines("labels.txt")
    private val unigram = files[ModelFiles.UNIGRAM]?.let { Unigram(it.toByteArray(Charsets.ISO_8859_1)) }
    private val wordPiece = if (unigram == null) makeTokenizer(context) else null
    private val model = CompiledModel.create(context.assets, asset, CompiledModel.Options(Accelerator.CPU))

    /** All labels with their probabilities, the likeliest first. A text that is too long is cut. */
    fun classify(text: String): List<Pair<String, Float>> {
        val ids = (unigram?.tokenize(text) ?: wordPiece!!.tokenize(text)).take(longest - 2)
        val row = listOf(idOf("<s>", "[CLS]")) + ids + idOf("</s>", "[SEP]")
        val (signature, length) = lengths.first { row.size <= it.second } // a short text costs few tokens
        val padding = idOf("<pad>", "[PAD]")
        val inputs = mapOf(
            "token_ids" to IntArray(length) { row.getOrElse(it) { padding } },
            "segment_ids" to IntArray(length),
            "padding_mask" to IntArray(length) { if (it < row.size) 1 else 0 },
        )
        return labels.zip(run(inputs, signature).asIterable()).sortedByDescending { it.second }
    }

    /** Runs a signature. Buffers are bound by name: a file's inputs are in no fixed order. */
    private fun run(inputs: Map<String, IntArray>, signature: String): FloatArray {
        val buffers = inputs.mapValues { (name, data) -> model.createInputBuffer(name, signature).apply { writeInt(data) } }
        val output = model.createOutputBuffer("probabilities", signature)
        try {
            model.run(buffers, mapOf("probabilities" to output), signature)
            return output.readFloat()
        } finally {
            (buffers.values + output).forEach { it.close() }
        }
    }

    override fun close() = model.close()

    /** The id of a special token, as Unigram or WordPiece calls it. */
    private fun idOf(inUnigram: String, inWordPiece: String) = unigram?.idOf(inUnigram) ?: wordPiece!!.idOf(inWordPiece)

    private fun lines(name: String) = files.getValue(name).removeSuffix("\n").split("\n")

    private fun makeTokenizer(context: Context): WordPiece {
        val json = JSONObject(context.assets.open("unicode_tables.json").bufferedReader().use { it.readText() })
        val classes = json.getJSONArray("combining_class")
        val names = json.keys().asSequence().filter { it != "combining_class" }
        val tables = UnicodeTables(names.associateWith(json::getString), List(classes.length(), classes::getString))
        val rules = about.getJSONObject("tokenizer")
        val lowercase = rules.optBoolean("do_lower_case", true)
        return WordPiece(
            lines("vocab.txt"),
            tables,
            lowercase = lowercase,
            stripAccents = rules.optBoolean("strip_accents", lowercase), // null in the file: as lowercase
            splitCjk = rules.optBoolean("tokenize_chinese_chars", true),
        )
    }

    /** The file in place, as it lies in the APK: Gradle leaves `.tflite` uncompressed. */
    private fun mapAsset(context: Context, asset: String): ByteBuffer = context.assets.openFd(asset).use { file ->
        FileInputStream(file.fileDescriptor).use { stream ->
            stream.channel.map(FileChannel.MapMode.READ_ONLY, file.startOffset, file.declaredLength)
        }
    }
}
