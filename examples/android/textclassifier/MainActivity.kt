package com.example.textclassifier

import android.app.Activity
import android.os.Bundle
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.TextView
import java.util.concurrent.Executors

/** A text, a button, and what the model says of the text. */
class MainActivity : Activity() {
    private val background = Executors.newSingleThreadExecutor() // a model must not hold up the screen
    private lateinit var classifier: LiteRtClassifier // used on that thread alone

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        val text = EditText(this)
        val button = Button(this).apply { setText("Classify") }
        val answer = TextView(this)
        setContentView(LinearLayout(this).apply {
            orientation = LinearLayout.VERTICAL
            listOf(text, button, answer).forEach(::addView)
        })
        background.execute { classifier = LiteRtClassifier(this) }
        button.setOnClickListener {
            val given = text.text.toString()
            background.execute {
                val labels = classifier.classify(given)
                val lines = labels.joinToString("\n") { (name, probability) -> "%s  %.1f %%".format(name, 100 * probability) }
                runOnUiThread { answer.text = lines }
            }
        }
    }

    override fun onDestroy() {
        background.execute { if (::classifier.isInitialized) classifier.close() }
        background.shutdown()
        super.onDestroy()
    }
}
